"use strict";
const byId = (id) => document.getElementById(id);
const ROW_HEIGHT = 30, MARGIN = 15, KEPT_BLOCKS = 12, NARROW = "(max-width: 900px)";
const LIMIT = "limit", ALL = "all", ANY = "";
const state = { sort: null, descending: false, shown: [], chosen: -1, limits: {}, request: 0 };
let data = null;

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") made.className = value; else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
const number = (value, digits = 3) => value === null || value === undefined ? "–" : value.toFixed(digits);
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
const count = (value) => value.toLocaleString("en");
const broken = (name) => name.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]);
const metric = (key, name) => data.metrics[key + "/" + name];
const hidden = (text) => element("span", { class: "sr" }, text);

// ---- The page's data: blocks of rows, deflated and Base64-encoded, which are decoded on demand.

async function inflated(source) {
  const binary = atob(source.textContent), bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) bytes[place] = binary.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// A repeated text is stored once; later occurrences are "~" and its number. A text that starts with "~" is stored with "~~".
const isNumber = (text) => text[0] === "~" && text[1] !== "~";
function texts(value, found) {
  if (typeof value === "string") { if (value !== "" && !isNumber(value)) found.push(value[0] === "~" ? value.slice(1) : value); }
  else if (Array.isArray(value)) for (const each of value) texts(each, found);
  return found;
}
const blocks = new Map();
function block(place) {
  if (blocks.has(place)) {
    const known = blocks.get(place);
    blocks.delete(place);
    blocks.set(place, known);
    return known;
  }
  const opened = inflated(byId("rows-" + place)).then((rows) => ({ rows, texts: texts(rows, []) }));
  blocks.set(place, opened);
  if (blocks.size > KEPT_BLOCKS) blocks.delete(blocks.keys().next().value);
  return opened;
}
function lastUpTo(wanted, column) {  // the block that contains the row or text with this number
  let low = 0, high = data.blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (data.blocks[middle][column] <= wanted) low = middle; else high = middle - 1;
  }
  return low;
}
async function resolved(value) {
  if (Array.isArray(value)) {
    const found = [];
    for (const each of value) found.push(typeof each === "string" && !isNumber(each) ? (each[0] === "~" ? each.slice(1) : each) : typeof each === "string" || Array.isArray(each) ? await resolved(each) : each);
    return found;
  }
  const wanted = Number(value.slice(1)), place = lastUpTo(wanted, 1);
  return (await block(place)).texts[wanted - data.blocks[place][1]];
}
const item = ([code, text, reason, support, evidence = [], judge = "", unbacked = []]) => ({
  kind: data.codes[code][0], verdict: data.codes[code][1], against: data.codes[code][2], text, reason, support, judge, unbacked,
  evidence: evidence.map(([chunk, quote]) => ({ chunk, quote })),
});
/** A row with all its texts; null if the page does not contain them. */
async function opened(index) {
  if (index >= data.detailed) return null;
  const place = lastUpTo(index, 0);
  const [answer, question, references, chunks, scores, why, metadata] = await resolved((await block(place)).rows[index - data.blocks[place][0]]);
  return {
    index, id: data.ids[index], question: question || data.questions[index], answer, references, why, metadata,
    chunks: chunks === null ? null : chunks.map(([id, text]) => ({ id, text })),
    scores: scores.map(([key, reason, scaled, judge, items, found, missing]) => ({
      key, reason, scaled, judge, found, missing, items: (typeof items === "number" ? scores[items][4] : items).map(item),
    })),
  };
}

// ---- Good and bad scores, by the thresholds.

const side = (key) => data.lower.includes(key) ? "lower is better" : data.neither.includes(key) ? "neither direction is better" : "";
const valueOf = (key, index) => data.values[key][index];
const isMeasured = (letter) => "opf".includes(letter);
const limitOf = (key) => key in state.limits ? state.limits[key] : data.thresholds[key];
const misses = (key, value, limit) => data.lower.includes(key) ? value > limit + 1e-9 : value < limit - 1e-9;
const limitWord = (key) => key in data.thresholds ? `${data.lower.includes(key) ? "≤" : "≥"} ${data.thresholds[key]}` : "(its metrics' thresholds)";

/** The label of a score: [class, sign, words]; null if it neither passes nor fails. */
function judged(key, index) {
  const letter = data.states[key][index];  // a score set by a rule is neither good nor bad
  return letter === "p" ? ["good", "✓", "passes"] : letter === "f" ? ["bad", "✗", "fails"] : null;
}
const STATES = { s: "skipped", e: "failed", "-": "no score" };
const verdictName = (verdict, against) => verdict === "NEUTRAL" && against ? data.unsupported : data.verdicts[verdict] || verdict.replace("_", " ").toLowerCase();

// ---- The summary.

function histogram(key, values) {
  const [low, high] = rangeOf(key), bins = new Array(20).fill(0);
  for (const value of values) bins[Math.min(19, Math.max(0, Math.floor(20 * (value - low) / (high - low || 1))))]++;
  const top = Math.max(1, ...bins), space = "http://www.w3.org/2000/svg", limit = data.thresholds[key];
  const drawing = document.createElementNS(space, "svg");
  const label = `Distribution of ${count(values.length)} scores from ${low} to ${high}` + (limit === undefined ? "" : `, the threshold is ${limit}`);
  for (const [name, value] of Object.entries({ viewBox: "0 0 200 42", preserveAspectRatio: "none", role: "img", "aria-label": label })) drawing.setAttribute(name, value);
  const add = (tag, box) => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(box)) made.setAttribute(name, value);
    drawing.append(made);
    return made;
  };
  bins.forEach((some, bin) => {
    const height = 40 * some / top;
    const bar = add("rect", { x: 10 * bin + 1, y: 41 - height, width: 8, height: some ? Math.max(height, 1) : 0 });
    bar.append(Object.assign(document.createElementNS(space, "title"), { textContent: count(some) }));
  });
  if (limit !== undefined) add("line", { x1: 200 * (limit - low) / (high - low || 1), x2: 200 * (limit - low) / (high - low || 1), y1: 0, y2: 42 });
  return element("div", {}, drawing, element("div", { class: "ends small", "aria-hidden": "true" }, element("span", {}, String(low)), element("span", {}, `highest bar: ${count(top)}`), element("span", {}, String(high))));
}
function rangeOf(key) {
  if (data.ranges[key]) return data.ranges[key];
  let low = 0, high = 1;
  for (const value of data.values[key]) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
  return [Math.floor(low), Math.ceil(high)];
}

function card(key) {
  const mean = metric(key, "mean"), rate = metric(key, "pass_rate"), threshold = data.thresholds[key];
  const scored = metric(key, "n_scored") || 0, measured = metric(key, "n_measured") ?? scored;
  const small = (text, kind = "") => element("div", { class: "small " + kind }, text);
  const lines = [];
  if (measured && mean !== undefined && threshold !== undefined) {
    const bad = misses(key, mean, threshold), word = bad === data.lower.includes(key) ? "above" : "below", few = !bad && measured < 0.95 * data.total;
    const words = bad ? `✗ misses ${limitWord(key)}` : few ? `reaches ${limitWord(key)}, but only ${count(measured)} of ${count(data.total)} rows measured` : `✓ reaches ${limitWord(key)}`;
    lines.push(element("div", {}, element("span", { class: "word " + (bad ? "bad" : few ? "none" : "good") }, words), hidden(`: the mean is ${bad ? word : "within"} the threshold`)));
  }
  if (measured && rate !== undefined) lines.push(small(`${(100 * rate).toFixed(0)} % of the measured rows pass`));
  if (measured && metric(key, "ci_low") !== undefined) {
    const groups = metric(key, "n_groups"), effect = metric(key, "design_effect");
    lines.push(small(`95 %: ${number(metric(key, "ci_low"))} to ${number(metric(key, "ci_high"))}` + (groups === undefined ? "" : ` over ${groups} groups` + (metric(key, "few_groups") ? " (few groups)" : "") + (effect === undefined ? "" : `, design effect ${number(effect, 1)}`))));
  }
  const counts = [["measured", measured], ["by rule", scored - measured], ["skipped", metric(key, "n_skipped") || 0], ["failed", metric(key, "n_error") || 0]].filter(([name, n]) => n || name === "measured");
  lines.push(small(counts.map(([name, n]) => `${count(n)} ${name}`).join(" · ")));
  if (measured < data.total) {
    lines.push(small(measured ? `${count(measured)} of ${count(data.total)} rows measured; the mean covers only these` : "not measured in any row", "short"));
  }
  const values = measured ? data.values[key].filter((value) => value !== null) : [], scaled = measured ? metric(key + "_1to5", "mean") : undefined;
  return element("div", { class: "card" + (isComposite(key) ? " first" : "") + (measured ? "" : " empty"), role: "group", "aria-label": key },
    element("div", { class: "name" }, ...broken(key)),
    side(key) ? small(side(key)) : null,
    element("div", { class: "mean" }, measured ? number(mean) : "not measured", scaled === undefined ? null : element("span", { class: "small" }, `  ${number(scaled, 1)} of 5`)),
    ...lines, values.length ? histogram(key, values) : null);
}
const isComposite = (key) => metric(key, "coverage") !== undefined;

function summary() {
  const about = data.description, usage = data.usage;
  byId("about").textContent = [
    `${count(data.total)} ${data.total === 1 ? "row" : "rows"}`,
    about.suite && `suite ${about.suite}`,
    about.judge && about.judge.length && `judge ${[].concat(about.judge).join(", ")}`,
    usage.calls && `calls: ${count(usage.calls)}`,
    usage.prompt_tokens && `prompt tokens: ${count(usage.prompt_tokens)}`,
    usage.cost && `cost: ${usage.cost.toFixed(4)} dollars`,
    usage.wall_seconds && `${usage.wall_seconds.toFixed(1)} s`,
  ].filter(Boolean).join(" · ");
  if (data.run.id) {
    const name = data.run.name || data.run.id;
    byId("run").append("MLflow run ", data.run.url ? element("a", { href: data.run.url, target: "_blank", rel: "noopener" }, name) : element("strong", {}, name), data.run.name ? ` (${data.run.id})` : "");
    byId("run").hidden = false;
  }
  const unmeasured = data.keys.filter((key) => !(metric(key, "n_measured") ?? metric(key, "n_scored")));
  const parts = [];
  if (!data.keys.length || !data.total) parts.push(["none", "Nothing was measured: there is no row or no metric."]);
  else if (unmeasured.length === data.keys.length) parts.push(["bad", "Nothing was measured in any row. The reasons are listed above and in each row."]);
  else if (unmeasured.length) parts.push(["none", `Not measured in any row: ${unmeasured.join(", ")}.`]);
  if (data.detailed < data.ids.length) parts.push(["none", `This page has the answers, claims and passages of the worst ${count(data.detailed)} of ${count(data.ids.length)} rows, and only the scores of the others, because their texts would make it too large. The run's tables have all texts.`]);
  if (unmeasured.length < data.keys.length && !Object.keys(data.thresholds).length) parts.push(["soft", "No threshold is set, so scores are not marked as passed or failed. To try a threshold, choose “below a threshold” and move the slider."]);
  byId("verdict").append(...parts.map(([kind, text]) => element("span", { class: "said " + kind }, text)));
  byId("summary").append(...data.keys.map(card));
}

function causes() {
  const counted = Object.entries(data.causes).filter(([, some]) => some), most = Math.max(...counted.map(([, some]) => some));
  byId("diagnosis").hidden = byId("cause-box").hidden = !counted.length;
  byId("cause").append(element("option", { value: ANY }, "any"));
  for (const [cause, some] of counted) {
    byId("cause").append(element("option", { value: cause }, `${cause} (${count(some)})`));
    const bar = element("button", { type: "button", class: "cause " + cause.replaceAll(" ", "-"), "aria-pressed": "false", title: "show these rows" },
      element("span", { class: "label" }, cause),
      element("span", { class: "track" }, element("span", { class: "length", style: `width:${(100 * some / most).toFixed(1)}%` })),
      element("span", { class: "number" }, `${count(some)} (${(100 * some / data.total).toFixed(0)} %)`));
    bar.addEventListener("click", () => {
      byId("cause").value = byId("cause").value === cause ? ANY : cause;
      select();
    });
    byId("causes").append(bar);
  }
}

// ---- Which rows are shown.

const SHOW = {
  [ALL]: ["all rows", () => true],
  claims: ["with an unsupported claim", (index) => data.claims[index] !== "."],
  contradicted: ["with a contradicted claim", (index) => data.claims[index] === "c"],
  [LIMIT]: ["below a threshold", (index) => keysOfLimit().some((key) => isBelow(key, index))],
  unmeasured: ["skipped, failed or not measured", (index) => data.keys.some((key) => !isMeasured(data.states[key][index]))],
};
const keysOfLimit = () => byId("limit-metric").value === ANY ? Object.keys(data.thresholds) : [byId("limit-metric").value];
const isBelow = (key, index) => {
  const value = valueOf(key, index);
  if (value === null) return false;
  return key in state.limits || data.states[key][index] === "o" ? misses(key, value, limitOf(key) ?? Infinity) : data.states[key][index].toLowerCase() === "f";
};

function controls() {
  for (const [name, [label]] of Object.entries(SHOW)) byId("show").append(element("option", { value: name }, label));
  if (Object.keys(data.thresholds).length) byId("limit-metric").append(element("option", { value: ANY }, "any metric with a threshold"));
  for (const key of data.keys) byId("limit-metric").append(element("option", { value: key }, key));
  const fields = Object.entries(data.metadata);
  byId("metadata").hidden = !fields.length;
  byId("field").append(element("option", { value: ANY }, "any"), ...fields.map(([name]) => element("option", { value: name }, name)));
  byId("field").addEventListener("change", () => {
    const field = data.metadata[byId("field").value];
    byId("value-box").hidden = !field;
    if (field) {
      const counts = new Map();
      for (const each of field.rows) counts.set(each, (counts.get(each) || 0) + 1);
      const values = [...counts].sort((a, b) => b[1] - a[1]).map(([each, some]) => element("option", { value: each }, `${each < 0 ? "(none)" : field.values[each]} (${count(some)})`));
      byId("value").replaceChildren(...values);
    }
    select();
  });
  byId("limit-metric").addEventListener("change", () => { slider(); select(); });
  byId("limit").addEventListener("input", () => {
    state.limits[byId("limit-metric").value] = Number(byId("limit").value);
    limitWords();
    select();
  });
  byId("show").addEventListener("change", () => { slider(); select(); });
  for (const id of ["cause", "value"]) byId(id).addEventListener("change", () => select());
  byId("search").addEventListener("input", () => select());
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("clear").addEventListener("click", () => { clear(); select(); byId("search").focus(); });
  for (const kind of ["csv", "json"]) byId(kind).addEventListener("click", () => exportRows(kind));
}
function slider() {
  const key = byId("limit-metric").value;
  byId("limits").hidden = byId("show").value !== LIMIT;
  byId("limit-box").hidden = key === ANY;
  if (key === ANY) return limitWords();
  const [low, high] = rangeOf(key), box = byId("limit");
  if (limitOf(key) === undefined) state.limits[key] = (low + high) / 2;
  box.min = low; box.max = high; box.step = (high - low) / 100; box.value = limitOf(key);
  limitWords();
}
function limitWords() {
  const key = byId("limit-metric").value, word = data.lower.includes(key) ? "above" : "below";
  byId("limit-word").textContent = key === ANY ? "missing the threshold of" : `${word} a threshold of`;
  byId("limit-value").textContent = key === ANY ? "" : `${Number(limitOf(key).toFixed(4))}`;
  byId("limit").setAttribute("aria-valuetext", key === ANY ? "" : `rows with ${key} ${word} ${Number(limitOf(key).toFixed(4))}`);
}
function clear() {
  byId("search").value = "";
  byId("show").value = ALL;
  byId("cause").value = byId("field").value = ANY;
  byId("value-box").hidden = true;
  slider();
}

const answers = [];  // lower-case texts, read on the first search
let reading = null;
async function readAnswers() {
  for (let place = 0; place < data.blocks.length; place++) {
    const { rows } = await block(place);
    for (const [answer] of rows) answers.push(answer === null ? "" : (isNumber(answer) ? await resolved(answer) : answer).toLowerCase());
    if (place % 8 === 7) { select(true); await new Promise((resume) => setTimeout(resume)); }
  }
  reading = "done";
  select(true);
}

const collator = new Intl.Collator(undefined, { numeric: true });
/** The text columns of the table of rows: id, the failed part if it is known, and question. */
const named = () => ({ id: data.ids, ...(data.diagnosis ? { diagnosis: data.diagnosis } : {}), question: data.questions });

function order() {
  if (state.sort === null) return;  // already sorted, worst first
  const column = named()[state.sort], sign = state.descending ? -1 : 1;
  if (column) return state.shown.sort((a, b) => sign * collator.compare(column[a], column[b]));
  const values = data.values[state.sort];
  state.shown.sort((a, b) => {
    if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null);
    return sign * (values[a] - values[b]);
  });
}

/** Find the rows to show; select the first one, or with `keep` the one selected before. */
function select(keep = false) {
  const wanted = byId("search").value.trim().toLowerCase(), [, holds] = SHOW[byId("show").value], cause = byId("cause").value;
  const field = data.metadata[byId("field").value], value = Number(byId("value").value);
  const chosen = keep ? state.shown[state.chosen] : undefined;
  state.shown = [];
  for (let index = 0; index < data.ids.length; index++) {
    if (cause !== ANY && data.diagnosis[index] !== cause) continue;
    if (field && field.rows[index] !== value) continue;
    if (!holds(index)) continue;
    if (wanted && !data.ids[index].toLowerCase().includes(wanted) && !data.questions[index].toLowerCase().includes(wanted) && !(answers[index] || "").includes(wanted)) continue;
    state.shown.push(index);
  }
  if (wanted && reading === null) { reading = "now"; readAnswers(); }
  order();
  const all = data.ids.length, filtered = wanted || byId("show").value !== ALL || cause !== ANY || field;
  const sorted = state.sort === null ? (data.worst_by && all > 1 ? `, worst first (by ${data.worst_by})` : "") : `, by ${state.sort}`;
  byId("clear").hidden = !filtered;
  byId("count").textContent = `${state.shown.length < all ? `${count(state.shown.length)} of ` : ""}${count(all)} ${all === 1 ? "row" : "rows"}${sorted}` + (wanted && reading === "now" ? ` (reading answers: ${Math.round(100 * answers.length / Math.max(1, data.detailed))} %)` : "");
  for (const bar of byId("causes").children) bar.setAttribute("aria-pressed", bar.firstChild.textContent === cause);
  const place = chosen === undefined ? 0 : state.shown.indexOf(chosen);
  if (!keep) byId("scroller").scrollTop = 0;
  if (keep && place >= 0) { state.chosen = place; draw(); } else choose(0);
}

// ---- The table: only the rows in view are in the document.

function headings() {
  byId("head").replaceChildren(...[...Object.keys(named()), ...data.keys].map((name) => {
    const sorted = state.sort === name, arrow = sorted ? (state.descending ? "\u00a0▾" : "\u00a0▴") : "";
    const button = element("button", { type: "button" }, ...broken(name + arrow));
    button.addEventListener("click", () => {
      if (sorted && state.descending === data.lower.includes(name)) state.descending = !state.descending;
      else if (sorted) state.sort = null;
      else { state.sort = name; state.descending = data.lower.includes(name); }
      headings();
      select();
      setHash();
    });
    const direction = sorted ? (state.descending ? "descending" : "ascending") : "none";
    return element("th", { scope: "col", class: data.keys.includes(name) ? "number" + extra(name) : name, "aria-sort": direction }, button);
  }));
}
/** A narrow table shows only one metric: the one it is sorted by, else the first. */
const extra = (key) => key === (data.keys.includes(state.sort) ? state.sort : data.keys[0]) ? "" : " extra";

function cell(key, index) {
  const letter = data.states[key][index], value = valueOf(key, index), kind = "number" + extra(key);
  if (value === null) return element("td", { class: `${kind} unscored ${letter === "e" ? "bad" : ""}` }, STATES[letter]);
  const [style, sign, words] = judged(key, index) || ["", "", ""];
  const shown = [number(value)];
  if (sign) shown.push(element("span", { class: "sign " + style, title: `${words} ${limitWord(key)}` }, ` ${sign} ${words}`));
  if (!isMeasured(letter)) shown.push(element("span", { class: "sign none", title: "set by a rule, not measured" }, " by rule"));
  return element("td", { class: `${kind} ${style}` }, ...shown);
}

function draw() {
  const scroller = byId("scroller"), total = state.shown.length, columns = Object.entries(named());
  const first = Math.max(0, Math.min(total - 1, Math.floor(scroller.scrollTop / ROW_HEIGHT)) - MARGIN);
  const last = Math.min(total, first + Math.ceil(scroller.clientHeight / ROW_HEIGHT) + 2 * MARGIN);
  const space = (rows) => element("tr", { class: "space", "aria-hidden": "true" }, element("td", { colspan: data.keys.length + columns.length, style: `height:${rows * ROW_HEIGHT}px` }));
  const lines = state.shown.slice(first, last).map((index, offset) => {
    const place = first + offset, chosen = place === state.chosen;
    const line = element("tr", { class: "row" + (chosen ? " chosen" : ""), id: "row-" + index, "aria-rowindex": place + 2, "aria-selected": chosen },
      ...columns.map(([name, texts]) => element("td", { class: name, title: texts[index] }, texts[index])), ...data.keys.map((key) => cell(key, index)));
    line.addEventListener("click", () => choose(place, { open: true }));
    return line;
  });
  byId("body").replaceChildren(...(first ? [space(first)] : []), ...lines, ...(last < total ? [space(total - last)] : []));
  byId("rows").setAttribute("aria-rowcount", total + 1);
  if (total && state.chosen >= 0) byId("rows").setAttribute("aria-activedescendant", "row-" + state.shown[state.chosen]);
  else byId("rows").removeAttribute("aria-activedescendant");
}

/** Select the row at this position; `open` scrolls to its details if they are below the table. */
function choose(place, { scroll = false, open = false, focus = false, name = null } = {}) {
  state.chosen = Math.min(Math.max(place, 0), state.shown.length - 1);
  const scroller = byId("scroller"), top = state.chosen * ROW_HEIGHT;
  if (scroll && Math.abs(top - scroller.scrollTop) > MARGIN * ROW_HEIGHT) scroller.scrollTop = top - scroller.clientHeight / 2;
  draw();
  if (scroll) document.querySelector("tr.chosen")?.scrollIntoView({ block: "nearest" });
  if (open || scroll) setHash(name);
  return detail(state.shown[state.chosen], name).then((current) => {
    if (!current) return;
    if (open && matchMedia(NARROW).matches && !name) byId("detail").scrollIntoView({ block: "start" });
    if (focus) byId("detail").focus({ preventScroll: true });
  });
}

// ---- Links to a row: #row=…&metric=…

const address = (id, name) => "#" + new URLSearchParams({ row: id, ...(name ? { metric: name } : {}) });
function setHash(name) {
  const index = state.shown[state.chosen];
  if (index === undefined) return;
  try {
    history.replaceState(null, "", address(data.ids[index], name || (data.keys.includes(state.sort) ? state.sort : null)));
  } catch { /* inside a frame that may not change its address */ }
}
function followHash() {
  const asked = new URLSearchParams(location.hash.slice(1)), id = asked.get("row"), name = asked.get("metric");
  if (id === null && name === null) return false;
  const known = data.keys.includes(name) ? name : null;
  if (known && state.sort !== known) { state.sort = known; state.descending = data.lower.includes(known); headings(); }
  const index = id === null ? -1 : data.ids.indexOf(id);
  if (index >= 0 && !state.shown.includes(index)) clear();
  select();
  if (index >= 0) choose(state.shown.indexOf(index), { scroll: true, open: true, name: known });
  const missing = [id !== null && index < 0 && `row ${id}`, name !== null && !known && `metric ${name}`].filter(Boolean);
  if (missing.length) byId("count").textContent += `. Not on this page: ${missing.join(", ")}`;
  return true;
}

// ---- One row.

function marked(text, spans) {
  const found = [];
  for (const span of spans) {
    const start = span.text ? text.indexOf(span.text) : -1;
    if (start >= 0 && !found.some((other) => start < other.end && start + span.text.length > other.start)) {
      found.push({ ...span, start, end: start + span.text.length });
    }
  }
  found.sort((a, b) => a.start - b.start);
  const shown = element("p", { class: "text" });
  let position = 0;
  for (const span of found) {
    shown.append(text.slice(position, span.start), element("mark", { class: span.name, title: span.title || "" }, span.said ? hidden(`[${span.said}: `) : null, text.slice(span.start, span.end), span.said ? hidden("]") : null));
    position = span.end;
  }
  shown.append(text.slice(position));
  return shown;
}

const isClaim = (item) => item.kind === "claim" || item.kind === "sentence" && item.verdict in data.verdicts;
const FAULTS = ["CONTRADICTED", "NEUTRAL", "NOT_FOUND", "UNRELATED"];
const isFault = (item) => item.kind !== "chunk" && item.kind !== "token" && FAULTS.includes(item.verdict);

async function detail(index, name) {
  const request = ++state.request, shown = byId("detail");
  if (index === undefined) {
    shown.replaceChildren(element("p", { class: "why" }, data.ids.length ? "No row is shown." : "There are no rows."));
    return false;
  }
  let row = null;
  try {
    row = await opened(index);
  } catch (error) {
    if (request === state.request) shown.replaceChildren(element("p", { class: "bad" }, `This row cannot be read: ${error.message}`));
    return false;
  }
  if (request !== state.request) return false;  // another row was chosen meanwhile
  const parts = [element("button", { type: "button", class: "back" }, "↑ Back to the rows"), element("h2", {}, (row || {}).question || data.questions[index] || data.ids[index])];
  parts[0].addEventListener("click", () => { byId("list").scrollIntoView({ block: "start" }); byId("rows").focus({ preventScroll: true }); });
  parts.push(element("p", { class: "why" }, `${data.ids[index]} · `, element("a", { href: address(data.ids[index], name) }, "link to this row")));
  const cause = data.diagnosis && data.diagnosis[index];
  if (cause) parts.push(element("p", { class: "diagnosis" }, element("span", { class: "badge cause " + cause.replaceAll(" ", "-") }, cause), " ", row ? row.why : ""));
  if (row) parts.push(...texted(row, name));
  else {
    parts.push(element("p", { class: "why" }, "The texts of this row are left out because they would make the page too large. The run's tables have them."));
    for (const key of data.keys) parts.push(element("p", {}, element("strong", {}, key), " ", ...scoreWords(key, index, null)));
  }
  shown.replaceChildren(...parts);
  shown.scrollTop = 0;
  if (name) [...shown.querySelectorAll("details")].find((each) => each.dataset.key === name)?.scrollIntoView({ block: "start" });
  return true;
}

function texted(row, name) {
  const parts = [], items = row.scores.flatMap((score) => score.items.map((item) => ({ ...item, key: score.key }))).filter(isClaim);
  if (row.answer === null) parts.push(element("p", { class: "why" }, "There is no answer."));
  else {
    const spans = items.map((item) => ({ text: item.text.replace(/[.!?]+$/, ""), name: item.verdict, title: `${verdictName(item.verdict, item.against)}: ${item.reason}`, said: verdictName(item.verdict, item.against) }));
    parts.push(element("h3", {}, "Answer"), row.answer ? marked(row.answer, spans) : element("p", { class: "why" }, "The answer is blank."), ...tally(row));
  }
  parts.push(element("h3", {}, "Scores"));
  if (row.index >= data.marked && items.some(isFault)) parts.push(element("p", { class: "why" }, `Words of a claim that are not in any passage are marked only in the worst rows (${count(data.marked)}).`));
  let seen = "";
  for (const key of data.keys) {
    const score = row.scores.find((each) => each.key === key);
    if (!score) continue;
    const said = score.items.filter(isFault).map((item) => item.text).join("\n");
    parts.push(scoreBlock(row, score, name === key || !name && said !== "" && said !== seen));
    seen = said || seen;
  }
  if (row.references.length) parts.push(element("h3", {}, row.references.length > 1 ? "References" : "Reference"), ...row.references.map((text) => marked(text, [])));
  if (row.chunks === null) parts.push(element("p", { class: "why" }, "The retrieved passages are unknown."));
  else if (!row.chunks.length) parts.push(element("p", { class: "why" }, "Nothing was retrieved."));
  else parts.push(element("h3", {}, "Passages"), ...chunkBlocks(row));
  if (row.metadata.length) parts.push(element("h3", {}, "Metadata"), element("dl", {}, ...row.metadata.flatMap(([field, value]) => [element("dt", {}, field), element("dd", {}, value)])));
  return parts;
}

function tally(row) {
  const judged = row.scores.filter((score) => score.items.some(isClaim)), first = judged.find((score) => !score.items.find(isClaim).against) || judged[0];
  if (!first) return [];
  const items = first.items.filter((item) => isClaim(item) && item.judge === first.items.find(isClaim).judge);
  const counted = Object.keys(data.verdicts).map((verdict) => [verdict, items.filter((item) => item.verdict === verdict).length]).filter(([, some]) => some);
  return [element("p", { class: "tally" }, `${items.length} ${items.length === 1 ? "claim" : "claims"}: `, ...counted.map(([verdict, some]) => element("span", { class: "badge " + verdict }, `${some} ${verdictName(verdict, items[0].against)}`)))];
}

function scoreWords(key, index, score) {
  const value = valueOf(key, index), letter = data.states[key][index];
  if (value === null) return [element("span", { class: "badge " + (letter === "e" ? "error" : "skipped") }, STATES[letter])];
  const words = judged(key, index), shown = [number(value)];
  if (score && score.scaled !== null) shown.push(` (${number(score.scaled, 1)} of 5)`);
  if (words) shown.push(" ", element("span", { class: "word " + words[0] }, `${words[1]} ${words[2]} ${limitWord(key)}`));
  if (!isMeasured(letter)) shown.push(" ", element("span", { class: "word none" }, "set by a rule, not measured"));
  return shown;
}

function scoreBlock(row, score, open) {
  const listed = score.items.filter((item) => item.kind !== "chunk").sort((first, second) => isFault(second) - isFault(first));
  const shown = element("details", {}, element("summary", {}, element("strong", {}, score.key), " ", ...scoreWords(score.key, row.index, score), score.judge ? ` · ${score.judge}` : ""), element("p", { class: "why" }, score.reason));
  shown.dataset.key = score.key;
  shown.open = open;
  for (const item of listed) {
    const where = item.evidence.filter((each) => each.chunk).map((each) => {
      const link = element("a", { href: "#chunk-" + each.chunk }, `passage ${each.chunk}`);
      link.addEventListener("click", (event) => { event.preventDefault(); byId("chunk-" + each.chunk)?.scrollIntoView({ block: "center" }); });
      return element("p", { class: "why" }, link, each.quote ? ` “${each.quote}”` : "");
    });
    shown.append(element("div", { class: "item" },
      element("p", {}, item.verdict ? element("span", { class: "badge " + item.verdict }, verdictName(item.verdict, item.against)) : null, item.judge ? ` ${item.judge}:` : "", " ", ...unbacked(item), item.support === null ? "" : element("span", { class: "why", title: "how well the passages support it, from 0 to 1" }, ` support ${number(item.support, 2)} of 1`)),
      item.reason ? element("p", { class: "why" }, item.reason) : null, ...where));
  }
  for (const [verdict, words] of [["NOT_FOUND", score.missing], ["FOUND", score.found]]) if (words) shown.append(element("p", { class: "item words" }, element("span", { class: "badge " + verdict }, verdictName(verdict)), ` ${words}`));
  return shown;
}
function unbacked(item) {
  const spans = item.unbacked.map((text) => ({ text, name: "unbacked", title: "not in any passage", said: "not in any passage" }));
  return spans.length ? [...marked(item.text, spans).childNodes] : [item.text];
}

function chunkBlocks(row) {
  const used = new Set(), quotes = new Map();
  for (const item of row.scores.flatMap((score) => score.items)) {
    if (item.verdict !== "SUPPORTED" && item.verdict !== "RELATED" && item.verdict !== "CONTRADICTED") continue;
    for (const each of item.evidence) {
      const against = item.verdict === "CONTRADICTED";
      used.add(each.chunk);
      quotes.set(each.chunk, [...(quotes.get(each.chunk) || []), { text: each.quote, name: against ? "CONTRADICTED" : "quote", title: against ? "contradicts a claim" : "supports a claim" }]);
    }
  }
  const known = used.size > 0;  // without verdicts, no passage is known to be unused
  return row.chunks.map((chunk, place) => {
    const isUsed = used.has(place + 1), label = `${place + 1}${chunk.id ? " · " + chunk.id : ""}${isUsed || !known ? "" : " · not quoted"}`;
    return element("div", { class: "chunk" + (isUsed ? "" : " unused"), id: "chunk-" + (place + 1) }, element("strong", {}, label), marked(chunk.text, quotes.get(place + 1) || []));
  });
}

// ---- Export of the rows that are shown.

const guarded = (text) => /^[=+\-@\t\r]/.test(text) ? "'" + text : text;  // otherwise a spreadsheet would take it for a formula
const field = (value) => value === null || value === undefined ? "" : typeof value === "number" ? String(value) : `"${guarded(String(value)).replaceAll('"', '""')}"`;

async function exportRows(kind) {
  const said = byId("count").textContent, names = new Set(), records = [];
  for (const index of state.shown) {
    const row = await opened(index), scores = {}, metadata = Object.fromEntries(row ? row.metadata : []);
    for (const key of data.keys) {
      const score = row && row.scores.find((each) => each.key === key), letter = data.states[key][index].toLowerCase();
      scores[key] = { value: valueOf(key, index), status: STATES[letter] || "ok", passed: letter === "p" ? true : letter === "f" ? false : null, measured: isMeasured(data.states[key][index]), reason: score ? score.reason : null };
      if (score && kind === "json") scores[key].items = score.items.map((item) => ({ kind: item.kind, text: item.text, verdict: item.verdict, against: item.against, reason: item.reason, support: item.support, judge: item.judge || null, evidence: item.evidence }));
    }
    Object.keys(metadata).forEach((name) => names.add(name));
    records.push({ id: data.ids[index], question: row ? row.question : data.questions[index], answer: row ? row.answer : null, ...(kind === "json" ? { references: row ? row.references : null, contexts: row && row.chunks } : {}), diagnosis: data.diagnosis ? data.diagnosis[index] : null, scores, metadata });
    if (records.length % 500 === 0) {
      byId("count").textContent = `Exporting: ${count(records.length)} of ${count(state.shown.length)} rows`;
      await new Promise((resume) => setTimeout(resume));
    }
  }
  byId("count").textContent = said;
  if (kind === "json") return save("rows.json", "application/json", JSON.stringify(records, null, 1));
  const head = ["id", "question", "answer", "diagnosis", ...data.keys, ...data.keys.map((key) => key + "_status"), ...data.keys.map((key) => key + "_reason"), ...names];
  const lines = records.map((each) => [each.id, each.question, each.answer, each.diagnosis, ...data.keys.map((key) => each.scores[key].value), ...data.keys.map((key) => each.scores[key].status), ...data.keys.map((key) => each.scores[key].reason), ...[...names].map((name) => each.metadata[name])].map(field).join(","));
  return save("rows.csv", "text/csv", "\ufeff" + [head.map(field).join(","), ...lines].join("\r\n") + "\r\n");
}

function save(name, type, text) {
  if (window.self !== window.top) {  // a frame, such as MLflow's, may not save files
    byId("exported-text").value = text;
    byId("copied").textContent = "";
    byId("exported").showModal();
    byId("exported-text").select();
    return;
  }
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// ---- The keyboard.

const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
function keyboard() {
  byId("rows").addEventListener("keydown", (event) => {
    if (event.target !== byId("rows")) return;  // the buttons in headings handle their own keys
    if (event.key in STEPS) choose(state.chosen + STEPS[event.key], { scroll: true });
    else if (event.key === "Enter") choose(state.chosen, { open: true, focus: true });
    else return;
    event.preventDefault();
  });
  byId("detail").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    byId("list").scrollIntoView({ block: "nearest" });
    byId("rows").focus({ preventScroll: true });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    byId("search").focus();
  });
  byId("close").addEventListener("click", () => byId("exported").close());
  byId("copy").addEventListener("click", () => {
    byId("exported-text").select();
    byId("copied").textContent = document.execCommand("copy") ? "Copied." : "The browser did not allow copying. Press Ctrl+C.";
  });
}

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old; use one made since 2023");
  [...document.getElementsByClassName("rows")].forEach((each, place) => { each.id = "rows-" + place; });
  data = await inflated(byId("data"));
  summary();
  causes();
  controls();
  keyboard();
  headings();
  byId("scroller").addEventListener("scroll", () => requestAnimationFrame(draw));
  addEventListener("resize", draw);
  addEventListener("hashchange", followHash);
  if (!followHash()) select();
  document.body.dataset.ready = "yes";
}
start().catch((error) => { byId("count").textContent = `The rows cannot be shown: ${error.message}`; throw error; });
