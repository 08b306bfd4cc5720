"""Where judges' answers are kept between runs."""
