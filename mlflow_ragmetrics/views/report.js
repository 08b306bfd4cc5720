"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const EMPTY = { verdict: null, reason: "", support: null, evidence: [], unbacked: [], judge: null };  // an item of the data leaves these out
for (const row of data.rows) {
  for (const score of Object.values(row.scores)) score.items = score.items.map((item) => ({ ...EMPTY, ...item }));
}
const byId = (id) => document.getElementById(id);
const ROW_HEIGHT = 31, MARGIN = 15;
const state = { sort: null, descending: false, shown: [], chosen: -1 };

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") made.className = value; else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
const number = (value, digits = 3) => value === null || value === undefined ? "–" : value.toFixed(digits);
const metric = (key, name) => data.metrics[key + "/" + name];
const MEANING = { SUPPORTED: "supported", NEUTRAL: "not in the passages", CONTRADICTED: "contradicted" };
const claims = (row) => Object.values(row.scores).flatMap((score) => score.items).filter((item) => item.kind === "claim");
const firstClaims = (row) => data.keys.map((key) => claims({ scores: { key: row.scores[key] || { items: [] } } })).map((some) => some.filter((item) => item.judge === some[0].judge)).find((some) => some.length) || [];
const composite = data.keys.find((key) => metric(key, "coverage") !== undefined);
const LOWEST = "";  // the order of rows where no composite ranks them: by the lowest of each row's scores
const quality = (key, value) => data.neither.includes(key) ? Infinity : data.lower.includes(key) ? 1 - value : value;
const lowest = (row) => Math.min(...Object.entries(row.scores).map(([key, score]) => score.value === null || score.unmeasured ? Infinity : quality(key, score.value)));
const side = (key) => data.lower.includes(key) ? "lower is better" : data.neither.includes(key) ? "neither side is better" : "";
const DIAGNOSIS = "diagnosis: ";
const columns = composite === undefined ? data.keys : [composite, ...data.keys.filter((key) => key !== composite)];

function histogram(values, low, high) {
  const bins = new Array(20).fill(0);
  for (const value of values) bins[Math.min(19, Math.max(0, Math.floor(20 * (value - low) / (high - low))))]++;
  const top = Math.max(1, ...bins), space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  drawing.setAttribute("viewBox", "0 0 200 42");
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `Distribution of ${values.length} scores from ${low} to ${high}`);
  bins.forEach((count, index) => {
    const bar = document.createElementNS(space, "rect"), height = 40 * count / top;
    const box = { x: 10 * index + 1, y: 41 - height, width: 8, height: count ? Math.max(height, 1) : 0 };
    for (const [name, value] of Object.entries(box)) bar.setAttribute(name, value);
    drawing.append(bar);
  });
  return drawing;
}

function sessions(key) {
  const known = metric(key, "n_sessions"), unknown = metric(key, "n_sessions_unmeasured"), rate = metric(key, "session_pass_rate");
  if (known === undefined) return null;
  const kept = rate === undefined ? "" : `${Math.round(rate * known)} of ${known} sessions without a failing turn`;
  return element("div", { class: "small" + (unknown ? " short" : "") }, [kept, unknown ? `${unknown} sessions not measured` : ""].filter(Boolean).join(", "));
}

function summary() {
  const about = data.description, usage = data.usage;
  byId("about").textContent = [
    `${data.total} rows`,
    about.suite && `suite ${about.suite}`,
    about.judge && `judge ${[].concat(about.judge).join(", ")}`,
    usage.calls && `${usage.calls} calls`,
    usage.prompt_tokens && `${usage.prompt_tokens} prompt tokens`,
    usage.cost && `cost ${usage.cost.toFixed(4)}`,
    usage.wall_seconds && `${usage.wall_seconds.toFixed(1)} s`,
  ].filter(Boolean).join(" · ");
  for (const line of data.banner) byId("banner").append(element("li", {}, line));
  for (const warning of data.warnings) byId("warnings").append(element("li", {}, warning));
  for (const key of data.keys) {
    const values = data.rows.map((row) => row.scores[key] && row.scores[key].value).filter((v) => v !== null && v !== undefined);
    const low = Math.min(0, ...values.slice(0, 100000)), counts = ["scored", "skipped", "error"].filter((name) => name === "scored" || metric(key, "n_" + name));
    const interval = metric(key, "ci_low") === undefined ? "" : `95 %: ${number(metric(key, "ci_low"))} to ${number(metric(key, "ci_high"))}`;
    const groups = metric(key, "n_groups"), effect = metric(key, "design_effect");
    const grouped = groups === undefined ? "" : ` over ${groups} groups` + (metric(key, "few_groups") ? " (few groups)" : "") + (effect === undefined ? "" : `, design effect ${number(effect, 1)}`);
    const scaled = metric(key + "_1to5", "mean"), rate = metric(key, "pass_rate"), measured = metric(key, "n_measured");
    const short = measured !== undefined && measured < data.total;
    byId("summary").append(element("div", { class: "card" },
      element("div", { class: "name" }, ...broken(key)),
      side(key) ? element("div", { class: "small" }, side(key)) : null,
      element("div", { class: "mean" }, number(metric(key, "mean")), scaled === undefined ? null : element("span", { class: "small" }, `  ${number(scaled, 1)} of 5`)),
      element("div", { class: "small" }, interval + grouped),
      element("div", { class: "small" }, counts.map((name) => `${metric(key, "n_" + name) || 0} ${name === "error" ? "failed" : name}`).join(" · ") + (rate === undefined ? "" : ` · ${(100 * rate).toFixed(0)} % pass`)),
      sessions(key),
      short ? element("div", { class: "small short" }, `measured: ${measured} of ${data.total} rows`) : null,
      values.length ? histogram(values, low, 1) : null));
  }
}

const FILTERS = {
  "all rows": () => true,
  "with an unsupported claim": (row) => claims(row).some((item) => item.verdict !== "SUPPORTED"),
  "with a contradicted claim": (row) => claims(row).some((item) => item.verdict === "CONTRADICTED"),
  "below a threshold": (row) => Object.values(row.scores).some((score) => score.passed === false),
  "skipped or failed": (row) => Object.values(row.scores).some((score) => score.status !== "ok"),
};

const OF_CAUSE = Object.fromEntries(Object.entries(data.causes).filter(([, count]) => count).map(([cause]) => [DIAGNOSIS + cause, (row) => row.diagnosis[0] === cause]));

function causes() {
  const counted = Object.entries(data.causes).filter(([, count]) => count), most = Math.max(...counted.map(([, count]) => count));
  byId("diagnosis").hidden = !counted.length;
  for (const [cause, count] of counted) {
    const bar = element("button", { type: "button", class: "cause " + cause.replaceAll(" ", "-"), title: "show these rows" },
      element("span", { class: "label" }, cause),
      element("span", { class: "track" }, element("span", { class: "length", style: `width:${(100 * count / most).toFixed(1)}%` })),
      element("span", { class: "number" }, `${count} (${(100 * count / data.total).toFixed(0)} %)`));
    bar.addEventListener("click", () => {
      const same = byId("filter").value === DIAGNOSIS + cause;
      byId("filter").value = same ? "all rows" : DIAGNOSIS + cause;
      select();
    });
    byId("causes").append(bar);
  }
}

function select() {
  const wanted = byId("search").value.toLowerCase(), keep = { ...FILTERS, ...OF_CAUSE }[byId("filter").value];
  const text = (row) => `${row.id}\n${row.question || ""}\n${row.answer || ""}`.toLowerCase();
  state.shown = data.rows.filter((row) => keep(row) && (!wanted || text(row).includes(wanted)));
  if (state.sort !== null) {
    const value = (row) => state.sort === LOWEST ? lowest(row) : state.sort === "id" || state.sort === "question" ? row[state.sort] || "" : (row.scores[state.sort] || {}).value;
    const sign = state.descending ? -1 : 1;
    state.shown.sort((first, second) => {
      const a = value(first), b = value(second);
      if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
      if (b === null || b === undefined) return -1;
      return sign * (a < b ? -1 : a > b ? 1 : 0);
    });
  }
  byId("count").textContent = `${state.shown.length} of ${data.rows.length} rows`;
  byId("scroller").scrollTop = 0;
  state.chosen = -1;
  draw();
  if (state.shown.length) choose(0, false); else byId("detail").replaceChildren();
}

function headings() {
  byId("head").replaceChildren(...["id", "question", ...columns].map((name) => {
    const sorted = state.sort === name, arrow = sorted ? (state.descending ? "\u00a0▾" : "\u00a0▴") : "";
    const button = element("button", { type: "button" }, ...broken(name + arrow));
    button.addEventListener("click", () => {
      state.descending = sorted ? !state.descending : data.lower.includes(name);
      state.sort = name;
      headings();
      select();
    });
    return element("th", { scope: "col", class: data.keys.includes(name) ? "number" : name, "aria-sort": sorted ? (state.descending ? "descending" : "ascending") : "none" }, button);
  }));
}

const broken = (name) => name.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]);

function cell(score, key) {
  if (!score) return element("td", { class: "number unscored" }, "");
  if (score.value === null) return element("td", { class: "number unscored", title: score.reason }, score.status === "error" ? "failed" : score.status);
  const share = 100 * Math.min(1, Math.max(0, score.value)), bar = `background-size:${share.toFixed(0)}% 3px`;
  return element("td", { class: "number bar" + (side(key) === "" ? "" : data.lower.includes(key) ? " lower" : " neither") + (score.unmeasured ? " unscored" : "") + (score.passed === false ? " failed" : ""), style: bar, title: score.reason }, number(score.value));
}

function draw() {
  const scroller = byId("scroller"), total = state.shown.length;
  const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - MARGIN);
  const last = Math.min(total, first + Math.ceil(scroller.clientHeight / ROW_HEIGHT) + 2 * MARGIN);
  const space = (rows) => element("tr", { class: "space", "aria-hidden": "true" }, element("td", { colspan: data.keys.length + 2, style: `height:${rows * ROW_HEIGHT}px` }));
  const lines = state.shown.slice(first, last).map((row, offset) => {
    const index = first + offset;
    const line = element("tr", { class: "row" + (index === state.chosen ? " chosen" : ""), "aria-rowindex": index + 1 },
      element("td", {}, row.id), element("td", { class: "question" }, row.question || ""), ...columns.map((key) => cell(row.scores[key], key)));
    line.addEventListener("click", () => choose(index, false));
    return line;
  });
  byId("body").replaceChildren(space(first), ...lines, space(total - last));
}

function choose(index, scroll) {
  state.chosen = Math.min(Math.max(index, 0), state.shown.length - 1);
  const scroller = byId("scroller"), top = state.chosen * ROW_HEIGHT;
  if (scroll && (top < scroller.scrollTop || top > scroller.scrollTop + scroller.clientHeight - 3 * ROW_HEIGHT)) {
    scroller.scrollTop = top - scroller.clientHeight / 2;
  }
  draw();
  detail(state.shown[state.chosen]);
}

function marked(text, spans) {
  const found = [];
  for (const span of spans) {
    const start = span.text ? text.indexOf(span.text) : -1;
    if (start >= 0 && !found.some((other) => start < other.end && start + span.text.length > other.start)) {
      found.push({ start, end: start + span.text.length, name: span.name, title: span.title });
    }
  }
  found.sort((a, b) => a.start - b.start);
  const block = element("p", { class: "text" });
  let position = 0;
  for (const span of found) {
    block.append(text.slice(position, span.start), element("mark", { class: span.name, title: span.title || "" }, text.slice(span.start, span.end)));
    position = span.end;
  }
  block.append(text.slice(position));
  return block;
}

function detail(row) {
  const parts = [element("h2", {}, row.question || row.id)], items = claims(row);
  if (row.diagnosis) parts.push(element("p", { class: "diagnosis" }, element("span", { class: "badge cause " + row.diagnosis[0].replaceAll(" ", "-") }, row.diagnosis[0]), " ", row.diagnosis[1]));
  if (row.answer !== null) {
    const spans = items.map((item) => ({ text: item.text.replace(/[.!?]+$/, ""), name: item.verdict, title: (MEANING[item.verdict] || item.verdict) + ": " + item.reason }));
    parts.push(element("h3", {}, "Answer"), marked(row.answer, spans), ...tally(firstClaims(row)));
  }
  parts.push(element("h3", {}, "Scores"));
  let seen = "";
  for (const key of data.keys) {
    if (!row.scores[key]) continue;
    const said = unsupported(row.scores[key].items).map((item) => item.text).join("\n");
    parts.push(scoreBlock(key, row.scores[key], said !== "" && said !== seen));
    seen = said || seen;
  }
  if (row.references.length) parts.push(element("h3", {}, "Reference"), ...row.references.map((text) => marked(text, [])));
  if (row.chunks.length) parts.push(element("h3", {}, "Retrieved chunks"), ...chunkBlocks(row));
  byId("detail").replaceChildren(...parts);
  byId("detail").scrollTop = 0;
}

const unsupported = (items) => items.filter((item) => item.kind === "claim" ? item.verdict !== "SUPPORTED" : item.kind === "document" && item.verdict === "NOT_FOUND");

function tally(items) {
  const shown = Object.keys(MEANING).map((name) => [name, items.filter((item) => item.verdict === name).length]);
  if (!items.length) return [];
  const counted = shown.filter(([, count]) => count).map(([name, count]) => element("span", { class: "badge " + name }, `${count} ${MEANING[name]}`));
  return [element("p", { class: "tally" }, `${items.length} ${items.length === 1 ? "claim" : "claims"}: `, ...counted)];
}

function unbacked(item) {
  const spans = item.unbacked.map((text) => ({ text, name: "unbacked", title: "no passage has these words" }));
  return spans.length ? [...marked(item.text, spans).childNodes] : [item.text];
}

function scoreBlock(key, score, open) {
  const shown = score.value === null ? element("span", { class: "badge " + score.status }, score.status) : `${number(score.value)}${score.scaled === null ? "" : ` (${number(score.scaled, 1)} of 5)`}`;
  const rank = (item) => ["CONTRADICTED", "NEUTRAL", "NOT_FOUND"].includes(item.verdict) ? 0 : 1;
  const listed = score.items.filter((item) => item.kind !== "chunk").sort((first, second) => rank(first) - rank(second));
  const block = element("details", {}, element("summary", {}, element("strong", {}, key), " ", shown, score.judge ? ` · ${score.judge}` : ""),
    element("p", { class: "why" }, score.reason));
  block.open = open;
  for (const item of listed) {
    const where = item.evidence.filter((each) => each.chunk).map((each) => {
      const link = element("a", { href: "#chunk-" + each.chunk }, `chunk ${each.chunk}`);
      link.addEventListener("click", (event) => { event.preventDefault(); byId("chunk-" + each.chunk)?.scrollIntoView({ block: "center" }); });
      return element("p", { class: "why" }, link, each.quote ? ` “${each.quote}”` : "");
    });
    block.append(element("div", { class: "item" }, element("p", {}, element("span", { class: "badge " + item.verdict, title: item.verdict || "" }, MEANING[item.verdict] || item.verdict || ""), item.judge === null ? "" : ` ${item.judge}:`, " ", ...unbacked(item),
      item.support === null ? "" : element("span", { class: "why" }, ` support ${number(item.support, 2)}`)), element("p", { class: "why" }, item.reason), ...where));
  }
  return block;
}

function chunkBlocks(row) {
  const all = Object.values(row.scores).flatMap((score) => score.items);
  const used = new Set(), quotes = new Map();
  for (const item of all) {
    if (item.verdict !== "SUPPORTED" && item.verdict !== "RELATED" && item.verdict !== "CONTRADICTED") continue;
    for (const each of item.evidence) {
      used.add(each.chunk);
      quotes.set(each.chunk, [...(quotes.get(each.chunk) || []), { text: each.quote, name: item.verdict === "CONTRADICTED" ? "CONTRADICTED" : "quote" }]);
    }
  }
  return row.chunks.map((chunk, index) => {
    const label = `${index + 1}${chunk.id ? " · " + chunk.id : ""}${used.has(index + 1) ? "" : " · unused"}`;
    return element("div", { class: "chunk" + (used.has(index + 1) ? "" : " unused"), id: "chunk-" + (index + 1) }, element("strong", {}, label), marked(chunk.text, quotes.get(index + 1) || []));
  });
}

summary();
causes();
byId("filter").append(...Object.keys({ ...FILTERS, ...OF_CAUSE }).map((name) => element("option", {}, name)));
byId("filter").addEventListener("change", select);
byId("search").addEventListener("input", select);
byId("scroller").addEventListener("scroll", () => requestAnimationFrame(draw));
byId("scroller").addEventListener("keydown", (event) => {
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
  if (!(event.key in steps)) return;
  event.preventDefault();
  choose(state.chosen + steps[event.key], true);
});
if (data.rows.length > 1) state.sort = composite === undefined ? LOWEST : composite;
headings();
select();
