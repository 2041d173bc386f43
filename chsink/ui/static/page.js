// Shows what /events sends.  Everything that came from elsewhere becomes text: no HTML is ever made from a string.

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const NONE = "–";

/** Names may hold anything: what a reader would not see, or what would turn text around, is spelled out. */
const clean = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const count = (value) => (value === null || value === undefined ? NONE : number.format(Math.round(value)));

function rate(value) {
  if (value === null || value === undefined) return NONE;
  return value > 0 && value < 10 ? value.toFixed(1) : count(value);
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  const parts = [[Math.floor(s / 86400), "d"], [Math.floor(s / 3600) % 24, "h"], [Math.floor(s / 60) % 60, "min"], [s % 60, "s"]];
  const first = parts.findIndex(([n]) => n > 0);
  return parts.slice(first, first + 2).filter(([n], at) => n || !at).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

const words = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;
const clock = (iso) => new Date(iso).toLocaleTimeString("en-GB");
const ago = (iso, now) => (iso ? `${duration((new Date(now) - new Date(iso)) / 1000)} ago` : NONE);
const name = (text) => el("bdi", { class: "name", title: clean(text) }, clean(text));
const cell = (text, given = {}) => el("td", { class: "n" + (text === NONE || text === "0" ? " none" : ""), ...given }, text);

/** Shows a part again only if its data changed: focus, selection and open details stay. */
const shown = new Map();
function part(id, data, show) {
  const section = $(id);
  section.hidden = data === null || (Array.isArray(data) && !data.length);
  const text = JSON.stringify(data);
  if (section.hidden || shown.get(id) === text) return;
  shown.set(id, text);
  show(section, data);
}

function showHealth(doc) {
  const { level, sentence } = doc.health;
  const owner = doc.sums?.owner;
  if ($("health").dataset.level !== level || !$("announce").textContent) $("announce").textContent = clean(sentence);
  $("health").dataset.level = level;
  $("sentence").textContent = clean(sentence);
  const claimed = owner ? `Claimed by ${clean(owner.driver)}, epoch ${owner.epoch}, ${ago(owner.since, doc.at)}. ` : "";
  $("owner").textContent = claimed + (doc.beside ? "This page is served by the job." : "");
  $("sink").textContent = clean(doc.sink);
  const label = { good: "", busy: "", idle: "", warn: "! ", bad: "!! " }[level];
  document.title = `${label}${clean(doc.sink)} · chsink`;
  $("foot").firstChild.textContent = `This page changes nothing. It is updated every ${duration(doc.interval_s)}. `;
}

function showSums(section, { sums, landed }) {
  const entry = (label, value, unit = "", warn = false) =>
    el("div", { class: warn ? "some-warn" : null }, el("dt", {}, label), el("dd", {}, value, unit ? el("small", {}, ` ${unit}`) : ""));
  section.replaceChildren(
    entry("Lag", count(sums.lag), "offsets"),
    entry("Oldest waiting record", sums.lag === 0 ? NONE : duration(sums.lag_s)),
    entry("Landing", rate(landed), "offsets/s"),
    entry("In doubt", count(sums.in_doubt), sums.in_doubt === 1 ? "range" : "ranges"),
    entry("Dead letters", count(sums.dead_letters), "", sums.dead_letters > 0),
    entry("Skipped", count(sums.skipped), "", sums.skipped > 0),
  );
}

function showVerified(line, { verified, at }) {
  const { part, ok, offsets, differences } = verified;
  const found = Object.entries(differences).map(([kind, n]) => `${count(n)} ${clean(kind)}`).join(", ") || "differences found";
  line.textContent = `Last verified ${ago(verified.at, at)}${part ? ` (${clean(part)})` : ""}: ` +
    `${words(offsets, "offset", "offsets")} judged, ${ok ? "no difference" : found}.`;
  line.title = verified.at;
  line.classList.toggle("some-warn", !ok);
}

const WHERE = { ended: "ended the job", state: "state store", ahead: "will halt the job", mirror: "mirror", letters: "dead letters" };

/** Text with `code` in it. */
const coded = (text) => clean(text).split("`").map((piece, at) => (at % 2 ? el("code", {}, piece) : piece));

function copyable(command) {
  const code = el("code", {}, clean(command));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
      $("announce").textContent = "The command was copied.";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };
  const button = el("button", { type: "button", "aria-label": `Copy: ${clean(command)}`, on: { click: copy } }, "Copy");
  return el("div", { class: "command" }, code, button);
}

function showProblems(section, problems) {
  section.querySelector(".body").replaceChildren(...problems.map((problem) =>
    el("article", {},
      el("div", {}, el("div", { class: "id" }, problem.id), el("div", { class: "where" }, WHERE[problem.where] ?? "")),
      el("p", { class: "what" }, ...coded(problem.message)),
      problem.fix ? el("p", { class: "fix" }, el("b", {}, "Fix: "), ...coded(problem.fix)) : null,
      ...problem.commands.map(copyable))));
}

const SVG = "http://www.w3.org/2000/svg";
function spark(values) {
  if (values.length < 2) return "";
  const svg = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "path");
  const top = Math.max(...values, 1), step = 96 / (values.length - 1);
  path.setAttribute("d", values.map((v, at) => `${at ? "L" : "M"}${(at * step).toFixed(1)} ${(17 - (v / top) * 16).toFixed(1)}`).join(""));
  svg.setAttribute("viewBox", "0 0 96 18");
  svg.setAttribute("class", "line");
  svg.setAttribute("aria-hidden", "true");
  svg.append(path);
  return svg;
}

function showRoutes(section, routes) {
  section.querySelector("tbody").replaceChildren(...routes.map((route) => {
    const s = route.speed ?? {};
    const left = s.lag === 0 ? "now" : duration(s.left_s);
    const warn = (value) => (value > 0 ? { class: "n some-warn" } : {});
    return el("tr", {},
      el("th", { scope: "row" }, name(route.topic)), el("td", {}, name(route.table)),
      cell(rate(s.landed_per_s)), el("td", { class: "spark" }, spark(route.history)),
      cell(rate(s.produced_per_s)), cell(count(s.lag)), cell(s.lag === 0 ? NONE : duration(s.lag_s)), cell(left),
      cell(count(s.in_doubt ?? 0)), cell(count(route.skipped), warn(route.skipped)), cell(count(route.dead_letters), warn(route.dead_letters)));
  }));
  const fields = routes.filter((route) => route.unknown_fields.length).map((route) =>
    `${clean(route.topic)}: ${route.unknown_fields.map(([field, n]) => `${clean(field)} (${count(n)})`).join(", ")}`);
  $("fields").hidden = !fields.length;
  $("fields").textContent = `Fields without a column, by how many of the sampled records have them: ${fields.join("; ")}`;
}

const heat = (lag) => (lag === null ? "u" : lag === 0 ? "0" : lag < 100 ? "1" : lag < 1e4 ? "2" : lag < 1e6 ? "3" : "4");

function inWords([, partition, phase, start, end, lag, lagS, ageS], route) {
  const said = [`${clean(route.topic)} ${partition}`, lag === null ? "lag unknown" : `lag ${words(lag, "offset", "offsets")}`];
  if (lag && lagS) said.push(`oldest has waited ${duration(lagS)}`);
  if (phase === "BEFORE") said.push(`offsets ${start} to ${end} in doubt for ${duration(ageS)}`);
  else said.push(phase === "EMPTY" ? "nothing landed yet" : `landed up to offset ${end}`);
  return said.join(", ");
}

function makeMap(route, cells) {
  const box = el("div", { class: "cells" + (cells.length <= 48 ? " few" : ""), role: "group",
    "aria-label": `Partitions of ${clean(route.topic)} for ${clean(route.table)}; move with the arrow keys` },
    ...cells.map((_, at) => el("button", { type: "button", class: "cell", tabindex: at ? "-1" : "0" })));
  const show = (event) => {
    if (event.target.ariaLabel) $("cell").textContent = event.target.ariaLabel;
  };
  box.addEventListener("pointerover", show);
  box.addEventListener("focusin", show);
  box.addEventListener("keydown", (event) => {
    const all = [...box.children], at = all.indexOf(event.target);
    const inRow = all.filter((one) => one.offsetTop === all[0].offsetTop).length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: inRow, ArrowUp: -inRow, Home: -at, End: all.length - 1 - at }[event.key];
    if (step === undefined || !all[at + step]) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    all[at + step].tabIndex = 0;
    all[at + step].focus();
  });
  return el("div", { class: "map" },
    el("h3", {}, name(route.topic), " → ", name(route.table), el("span", { class: "none" }, ` · ${words(cells.length, "partition", "partitions")}`)), box);
}

function showPartitions(section, { routes, partitions }) {
  const byRoute = routes.map((_, at) => partitions.filter((p) => p[0] === at));
  const shape = JSON.stringify([routes.map((r) => [r.topic, r.table]), byRoute.map((cells) => cells.length)]);
  if (section.dataset.shape !== shape) {
    section.dataset.shape = shape;
    const focused = [...$("maps").querySelectorAll("button.cell")].indexOf(document.activeElement);
    $("maps").replaceChildren(...routes.map((route, at) => makeMap(route, byRoute[at])));
    if (focused >= 0) $("maps").querySelectorAll("button.cell")[focused]?.focus();
  }
  byRoute.forEach((cells, at) => {
    const buttons = $("maps").children[at].querySelector(".cells").children;
    cells.forEach((p, i) => {
      buttons[i].dataset.heat = heat(p[5]);
      buttons[i].classList.toggle("doubt", p[2] === "BEFORE");
      buttons[i].setAttribute("aria-label", inWords(p, routes[at]));
    });
  });
  if (document.activeElement?.matches("button.cell")) $("cell").textContent = document.activeElement.ariaLabel;
  const rows = () => partitions.map(([at, partition, phase, start, end, lag, lagS, ageS]) =>
    el("tr", {}, el("th", { scope: "row" }, name(routes[at].topic)), cell(String(partition)), el("td", {}, name(routes[at].table)),
      el("td", {}, phase), cell(count(start)), cell(count(end)), cell(count(lag)), cell(lag === 0 ? NONE : duration(lagS)), cell(ageS === null ? NONE : `${duration(ageS)} ago`)));
  const table = $("as-table");
  table.ontoggle = () => table.querySelector("tbody").replaceChildren(...(table.open ? rows() : []));
  if (table.open) table.ontoggle();
}

const MOST = 10;
function showDoubt(section, { routes, doubtful }) {
  const oldest = [...doubtful].sort((a, b) => (b[7] ?? 0) - (a[7] ?? 0)).slice(0, MOST);
  section.querySelector("tbody").replaceChildren(...oldest.map(([at, partition, , start, end, , , ageS]) =>
    el("tr", {}, el("th", { scope: "row" }, name(routes[at].topic)), el("td", { class: "n" }, String(partition)), el("td", {}, name(routes[at].table)),
      cell(count(start)), cell(count(end)), cell(count(end - start)), cell(ageS === null ? NONE : `${duration(ageS)} ago`))));
  section.querySelector(".more").textContent = doubtful.length > MOST ? `and ${count(doubtful.length - MOST)} more: see the table of all partitions` : "";
}

const PHASES = ["plan", "before", "insert", "after", "settle"];
function showBatch(section, { batch, at }) {
  const known = PHASES.filter((phase) => batch.phases[phase] !== undefined);
  const bar = el("div", { class: "phases", "aria-hidden": "true" }, ...known.map((phase) => {
    const piece = el("i", { "data-phase": phase });
    piece.style.flexGrow = batch.phases[phase];
    return piece;
  }));
  const keys = el("dl", { class: "keys" }, ...known.map((phase) =>
    el("div", { "data-phase": phase }, el("dt", {}, phase), el("dd", {}, `${batch.phases[phase].toFixed(2)} s`))));
  const total = known.reduce((sum, phase) => sum + batch.phases[phase], 0);
  const when = ago(new Date(batch.at_ms).toISOString(), at);
  const line = `Batch ${count(batch.batch_id)}, ${when}: ${words(batch.offsets, "offset", "offsets")}, ${words(batch.rows, "row", "rows")}, ${total.toFixed(2)} s`;
  section.querySelector(".body").replaceChildren(el("p", {}, line), bar, keys);
}

function showLetters(section, { groups, place }) {
  const body = section.querySelector(".body");
  const open = new Set([...body.querySelectorAll("details[open]")].map((one) => one.dataset.key));
  const values = (one) => (one.key !== undefined || one.value !== undefined ? [el("td", {}, el("pre", {}, clean(one.key ?? NONE))), el("td", {}, el("pre", {}, clean(one.value ?? NONE)))] : []);
  const withValues = groups.some((group) => group.letters.some((one) => one.value !== undefined || one.key !== undefined));
  body.replaceChildren(...groups.map((group) => {
    const key = JSON.stringify([group.table, group.column, group.error_id]);
    const heads = ["Topic", "Partition", "Offset", "Why", ...(withValues ? ["Key", "Value"] : [])];
    return el("details", { open: open.has(key), "data-key": key },
      el("summary", {}, el("span", { class: "count" }, count(group.count)), el("span", { class: "mono" }, group.error_id), " ", name(group.table),
        group.column ? el("span", {}, ", column ", name(group.column)) : "",
        el("span", { class: "why" }, `newest record ${group.newest ?? NONE}` + (group.replayed ? `, ${count(group.replayed)} replayed` : ""))),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Dead letters of ${clean(group.table)}` },
        el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col", class: head === "Offset" || head === "Partition" ? "n" : null }, head)))),
          el("tbody", {}, ...group.letters.map((one) => el("tr", {}, el("th", { scope: "row" }, name(one.topic)),
            el("td", { class: "n" }, String(one.partition)), el("td", { class: "n" }, String(one.offset)),
            el("td", { class: "reason" }, clean(one.reason) + (one.replayed ? " (replayed)" : "")), ...values(one)))))));
  }));
  $("letters-h").textContent = `Dead letters in ${clean(place)}` + (groups.length ? ", by reason" : ": none");
}

function showMirror(section, { mirror, at }) {
  const { owner, tables } = mirror;
  section.querySelector(".owner").textContent = owner ? `Claimed by ${clean(owner.driver)}, epoch ${owner.epoch}, ${ago(owner.since, at)}.` : "It has not run yet, or its state was lost.";
  section.querySelector("tbody").replaceChildren(...tables.map((t) => el("tr", {},
    el("th", { scope: "row", class: t.halted ? "some-warn" : null }, name(t.table)), cell(count(t.lag)), cell(t.lag === 0 ? NONE : duration(t.lag_s)),
    cell(count(t.pending)), cell(count(t.pending_units)), cell(count(t.skipped)), el("td", { title: t.last_commit }, ago(t.last_commit, at)),
    el("td", { title: t.valid_through }, ago(t.valid_through, at)), el("td", { class: "n mono" }, t.snapshot ?? NONE))));
}

function show(doc) {
  showHealth(doc);
  const doubtful = doc.partitions.filter((p) => p[2] === "BEFORE");
  const landed = doc.routes.reduce((sum, r) => (r.speed?.landed_per_s == null ? sum : (sum ?? 0) + r.speed.landed_per_s), null);
  part("sums", doc.sums && { sums: doc.sums, landed }, showSums);
  part("verified", doc.sums?.verified ? { verified: doc.sums.verified, at: doc.at } : null, showVerified);
  part("problems", doc.problems, showProblems);
  part("routes", doc.routes, showRoutes);
  part("partitions", doc.partitions.length ? doc : null, showPartitions);
  part("doubt", doubtful.length ? { routes: doc.routes, doubtful } : null, showDoubt);
  part("batch", doc.batch && { batch: doc.batch, at: doc.at }, showBatch);
  part("letters", doc.letters, showLetters);
  part("mirror", doc.mirror && { mirror: doc.mirror, at: doc.at }, showMirror);
}

function live(state, text) {
  if ($("live").dataset.state !== state && state === "lost") $("announce").textContent = text;
  $("live").dataset.state = state;
  $("live-text").textContent = text;
}

let ended = false, last = "";
const source = new EventSource("/events");
source.addEventListener("status", (event) => {
  const doc = JSON.parse(event.data);
  last = `last seen ${clock(doc.at)}`;
  ended = doc.ended;
  show(doc);
  live(ended ? "ended" : "live", ended ? `ended, ${last}` : `live, ${clock(doc.at)}`);
});
source.addEventListener("error", async () => {
  live(ended ? "ended" : "lost", ended ? `ended, ${last}` : `no connection${last ? `, ${last}` : ""}`);
  if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
  const answer = await fetch("/events", { method: "HEAD" }).catch(() => null);
  if (answer?.status === 401) location.assign("/login");
  else setTimeout(() => location.reload(), 10_000);
});
