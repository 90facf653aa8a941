"use strict";
// Shows what /console/v1/cluster tells. Everything from there is put in as text, never as markup.

const EVERY = 2000;
const byId = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "rect"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return element;
}

// ---- numbers for people

function count(number) {
  if (number >= 1e6) return (number / 1e6).toFixed(number < 1e7 ? 1 : 0) + " M";
  if (number >= 1e4) return (number / 1e3).toFixed(0) + " k";
  if (number >= 1e3) return (number / 1e3).toFixed(1) + " k";
  if (number >= 100 || Number.isInteger(number)) return number.toFixed(0);
  return number.toFixed(1);
}

function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) { number /= 1024; unit += 1; }
  return (unit === 0 || number >= 100 ? number.toFixed(0) : number.toFixed(1)) + " " + units[unit];
}

function seconds(number) {
  if (number === null || number === undefined) return "–";
  if (number < 1e-3) return (number * 1e6).toFixed(0) + " µs";
  if (number < 1) return (number * 1e3).toFixed(number < 1e-2 ? 1 : 0) + " ms";
  if (number < 100) return number.toFixed(number < 10 ? 2 : 1) + " s";
  if (number < 7200) return (number / 60).toFixed(0) + " min";
  if (number < 172800) return (number / 3600).toFixed(0) + " h";
  return (number / 86400).toFixed(0) + " d";
}

const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const plural = (number, one, many) => `${number} ${number === 1 ? one : many}`;

// ---- charts

const CHARTS = [
  { id: "throughput", title: "Operations a second", form: count, lines: [
    ["transactions", (s) => s.transactions], ["reads", (s) => s.reads]] },
  { id: "latency", title: "Time to the answer", form: seconds, log: true, lines: [
    ["transactions, median", (s) => s.transaction_p50], ["transactions, 99 %", (s) => s.transaction_p99],
    ["reads, median", (s) => s.read_p50], ["reads, 99 %", (s) => s.read_p99]] },
  { id: "bytes", title: "Bytes a second", form: bytes, lines: [
    ["written", (s) => s.written_bytes], ["read", (s) => s.read_bytes]] },
  { id: "conflicts", title: "Refused a second", form: count, lines: [
    ["conflicts", (s) => s.conflicts], ["for other reasons", (s) => s.refused]] },
];

const HEIGHT = 150, LEFT = 62, RIGHT = 8, TOP = 8, BOTTOM = 20;

/** Round values between which all lie, at most four steps. */
function scale(values, log) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (log) {
    const positive = known.filter((value) => value > 0);
    const low = Math.floor(Math.log10(Math.min(...positive, 1e-4)));
    const high = Math.ceil(Math.log10(Math.max(...positive, 1e-3)));
    const ticks = [];
    for (let power = low; power <= high; power += 1) ticks.push(10 ** power);
    const part = (value) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low || 1);
    return { ticks, part };
  }
  const top = Math.max(...known, 1e-9);
  const power = 10 ** Math.floor(Math.log10(top / 4));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size * 4 >= top) || power * 10;
  const whole = Math.max(step, 1);
  const ticks = [];
  for (let value = 0; ; value += whole) { ticks.push(value); if (value >= top) break; }
  return { ticks, part: (value) => value / ticks[ticks.length - 1] };
}

function lineKey(place) {
  const line = make("svg", { width: 26, height: 8, "aria-hidden": "true" });
  line.append(make("line", { x1: 0, y1: 4, x2: 26, y2: 4, class: `s${place + 1}`, "stroke-width": 2.4 }));
  return line;
}

function drawChart({ id, title, form, lines, log }, samples) {
  const figure = byId(`chart-${id}`);
  const last = samples[samples.length - 1];
  const told = lines.map(([name, value]) => [name, last ? value(last) : null]);
  const known = told.map(([, value]) => value);
  const keys = told.map(([name, value], place) =>
    make("span", { class: "key" }, lineKey(place), `${name} `, make("b", {}, value === null ? "–" : form(value))));
  const width = Math.max(figure.clientWidth - 34, 240);
  const label = `${title}: ` + told.map(([name, value]) => `${name} ${value === null ? "none" : form(value)}`).join(", ");
  const chart = make("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  const all = samples.flatMap((sample) => lines.map(([, value]) => value(sample)));
  const caption = make("figcaption", {}, make("b", {}, title), keys);
  if (!all.some((value) => value)) {
    const empty = make("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle", class: "empty" });
    empty.append(samples.length ? "nothing in the last ten minutes" : "no samples yet");
    chart.append(empty);
    figure.replaceChildren(caption, chart);
    return known;
  }
  const { ticks, part } = scale(all, log);
  const high = HEIGHT - TOP - BOTTOM;
  const y = (value) => TOP + high - part(value) * high;
  const to = last.at_ms, from = Math.min(samples[0].at_ms, to - 60000);
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
  for (const tick of ticks) {
    const at = y(tick);
    const text = make("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" });
    text.append(form(tick));
    chart.append(make("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }), text);
  }
  for (const [at, anchor] of [[from, "start"], [to, "end"]]) {
    const text = make("text", { x: x(at), y: HEIGHT - 4, "text-anchor": anchor });
    text.append(at === to ? "now" : `${Math.round((to - from) / 1000)} s ago`);
    chart.append(text);
  }
  lines.forEach(([, value], place) => {
    let path = "", pen = false, before = 0;
    for (const sample of samples) {
      const shown = value(sample);
      // A gap stays one.
      if (shown === null || shown === undefined) { pen = false; continue; }
      if (sample.at_ms - before > 3 * EVERY) pen = false;
      path += `${pen ? "L" : "M"}${x(sample.at_ms).toFixed(1)} ${y(shown).toFixed(1)}`;
      pen = true;
      before = sample.at_ms;
    }
    chart.append(make("path", { class: `s${place + 1}`, d: path }));
  });
  figure.replaceChildren(caption, chart);
  return known;
}

// ---- tables

/** Columns are [title, cell of a row, whether it is a number]. */
function table(id, columns, rows, nothing) {
  const place = byId(id);
  if (!rows.length) {
    place.replaceChildren(make("tbody", {}, make("tr", {}, make("td", { class: "nothing" }, nothing))));
    return;
  }
  const head = columns.map(([title, , kind]) => make("th", { scope: "col", class: kind === "n" ? "n" : undefined }, title));
  const body = rows.map((row) => make("tr", {}, columns.map(([, cell, kind]) =>
    make("td", { class: kind === "n" ? "n" : kind }, cell(row)))));
  const focused = place.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
  place.replaceChildren(make("thead", {}, make("tr", {}, head)), make("tbody", {}, body));
  if (focused) [...place.querySelectorAll("button")].find((one) => one.getAttribute("aria-label") === focused)?.focus();
}

function bar(part, tight) {
  const fill = make("span");
  fill.style.width = `${Math.round(Math.min(Math.max(part, 0), 1) * 100)}%`;
  return make("div", { class: tight ? "bar tight" : "bar", "aria-hidden": "true" }, fill);
}

function standing(node) {
  const away = (word) => ["away", `✕ ${word}`];
  if (node.presence === "given-up") return away("given up");
  if (node.presence !== "present") return away("away");
  if (!node.answers) return away("no answer");
  if (node.shards.some((shard) => shard.failed)) return ["degraded", "! lost a store"];
  if (!node.ready) return ["degraded", node.lease ? "! not ready" : "! no lease"];
  if (node.state === "draining") return ["degraded", "! draining"];
  return ["well", "✓ serves"];
}

function targets(node) {
  if (!node.answers) return "not known";
  return node.shards.map((shard) => {
    const used = shard.space_bytes - shard.free_bytes;
    const part = shard.space_bytes ? used / shard.space_bytes : 0;
    const words = shard.failed ? "failed" : `${bytes(shard.free_bytes)} free of ${bytes(shard.space_bytes)}` + (shard.full ? ", full" : "");
    const own = `, ${bytes(shard.used_bytes)} here, ${bytes(shard.live_bytes)} live`;
    return make("div", { class: "target", title: shard.directory },
      `shard ${shard.shard}: ${words}${shard.failed ? "" : own}`, bar(part, shard.full || shard.failed || part > 0.9));
  });
}

const sumOf = (node, field) => node.shards.reduce((sum, shard) => sum + shard[field], 0);
const mostOf = (node, field) => node.shards.reduce((most, shard) => Math.max(most, shard[field]), 0);
const known = (node, value) => (node.answers ? value() : "–");

function showNodes(view) {
  table("nodes", [
    ["Node", (n) => make("b", {}, `${n.node}`), "n"],
    ["State", (n) => { const [kind, word] = standing(n); return make("span", { class: `state ${kind}` }, word); }],
    ["Address", (n) => [make("span", { class: "mono" }, n.address), make("div", { class: "quiet" }, `zone ${n.zone}, weight ${n.weight}`)]],
    ["Leads", (n) => `${n.leads}`, "n"],
    ["Holds", (n) => `${n.holds}`, "n"],
    ["Transactions/s", (n) => known(n, () => count(n.rates.transactions)), "n"],
    ["Reads/s", (n) => known(n, () => count(n.rates.reads)), "n"],
    ["99 %", (n) => known(n, () => seconds(n.rates.transaction_p99)), "n"],
    ["Queue", (n) => known(n, () => count(sumOf(n, "queue"))), "n"],
    ["Lag", (n) => known(n, () => count(mostOf(n, "lag_entries"))), "n"],
    ["Clients", (n) => known(n, () => count(n.clients)), "n"],
    ["Targets", targets],
    ["Runs", (n) => known(n, () => [`${seconds(n.uptime_seconds)}`, make("div", { class: "quiet" }, `version ${n.program}`),
      n.leads_manager ? make("div", { class: "quiet" }, "leads the manager") : null]), undefined],
    ...acting(view, [["Acts", (n) => n.state === "draining"
      ? actButton("Restore", `Restore node ${n.node}`, `Plans give node ${n.node} its share again.`, { act: "restore", node: n.node })
      : actButton("Drain", `Drain node ${n.node}`, `Other nodes take over everything that node ${n.node} holds, while all is served. It can be restored.`, { act: "drain", node: n.node })]]),
  ], view.nodes, "The cluster manager has told of no node yet.");
}

// ---- the ring

let ringShape = "";
let cells = [];

function tellCell(cell, view) {
  const [type, index, epoch, replicas, learners] = cell;
  const wanted = Math.min(view.classes.find((one) => one.class === type)?.replicas ?? 1, view.nodes.length);
  const lacks = replicas.length === 0 ? "served by nobody" : replicas.length < wanted ? `${wanted - replicas.length} of ${wanted} replicas missing` : "complete";
  const leads = replicas.length ? `led by node ${replicas[0]}` : "";
  const others = replicas.length > 1 ? `, also on ${replicas.slice(1).join(", ")}` : "";
  const copies = learners.length ? `, being copied to ${learners.join(", ")}` : "";
  return `Partition ${index} of class ${type}, epoch ${epoch}: ${[lacks, leads].filter(Boolean).join(", ")}${others}${copies}.`;
}

function showRing(view) {
  const { total, complete, moving, unserved, epoch_max: epoch } = view.partitions;
  byId("ring-summary").textContent = total
    ? `Ring version ${view.ring_version}; ${plural(total, "partition", "partitions")}: ${complete} complete, ${moving} moving, ${unserved} unserved; highest epoch ${epoch}.`
    : "Nothing is known of the ring yet.";
  const shape = JSON.stringify([view.ring.map((cell) => [cell[0], cell[1]]), view.nodes.map((node) => node.node)]);
  if (shape !== ringShape) {
    ringShape = shape;
    buildRing(view);
  }
  view.ring.forEach((cell, place) => {
    const [, , , replicas, learners] = cell;
    const wanted = Math.min(view.classes.find((one) => one.class === cell[0])?.replicas ?? 1, view.nodes.length);
    const leader = replicas[0];
    const state = leader === undefined ? "none" : replicas.length < wanted || learners.length ? "lacking" : "";
    const element = cells[place];
    const words = tellCell(cell, view);
    element.className = `cell ${leader === undefined ? "" : `l${leader % 8}`} ${state}`;
    element.textContent = leader === undefined ? "✕" : `${leader}`;
    if (element.title !== words) { element.title = words; element.setAttribute("aria-label", words); }
    if (element === document.activeElement) byId("ring-detail").textContent = words;
  });
  const rebuilds = view.rebuilds.map((one) =>
    make("li", {}, `partition ${one.partition} of class ${one.class}: from ${one.from === null ? "nobody" : `node ${one.from}`} to ${one.to.map((node) => `node ${node}`).join(", ")} (${one.replicas} of ${one.wanted} complete)`));
  byId("rebuilds").replaceChildren(...(rebuilds.length
    ? [make("p", { class: "classname" }, `Rebuilds (${moving})`), make("ul", {}, rebuilds)]
    : [make("p", { class: "quiet" }, "No replica is being rebuilt.")]));
}

function buildRing(view) {
  cells = [];
  const groups = [];
  for (const type of view.classes) {
    const of = view.ring.filter((cell) => cell[0] === type.class);
    const grid = make("div", { class: "cells", role: "group", "aria-label": `Partitions of class ${type.class}; arrow keys move` });
    for (const cell of of) {
      const element = make("button", { type: "button", tabindex: cells.length ? -1 : 0 });
      element.addEventListener("focus", () => { byId("ring-detail").textContent = element.title; });
      element.addEventListener("mouseenter", () => { byId("ring-detail").textContent = element.title; });
      cells.push(element);
      grid.append(element);
    }
    groups.push(make("p", { class: "classname" },
      `Class ${type.class}: ${plural(type.replicas, "replica", "replicas")}, ${type.durability}; the number in a square is the node that leads`), grid);
  }
  const legend = view.nodes.map((node) => make("span", {}, make("i", { class: `cell l${node.node % 8}`, "aria-hidden": "true" }, `${node.node}`), `node ${node.node}`));
  legend.push(make("span", {}, make("i", { class: "cell lacking", "aria-hidden": "true" }, "n"), "lacks replicas"),
    make("span", {}, make("i", { class: "cell none", "aria-hidden": "true" }, "✕"), "served by nobody"));
  byId("ring").replaceChildren(...groups, make("div", { class: "legend" }, legend));
}

byId("ring").addEventListener("keydown", (event) => {
  const place = cells.indexOf(document.activeElement);
  if (place < 0) return;
  const top = cells[0].offsetTop;
  const across = Math.max(cells.filter((cell) => cell.offsetTop === top).length, 1);
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, Home: -place, End: cells.length - 1 - place }[event.key];
  if (step === undefined || !cells[place + step]) return;
  event.preventDefault();
  cells[place].tabIndex = -1;
  cells[place + step].tabIndex = 0;
  cells[place + step].focus();
});

// ---- the rest

function showTiles(view) {
  const last = view.samples.slice(-3);
  const mean = (field) => (last.length ? last.reduce((sum, sample) => sum + sample[field], 0) / last.length : 0);
  const p99 = last.map((sample) => sample.transaction_p99).filter((value) => value !== null);
  const read99 = last.map((sample) => sample.read_p99).filter((value) => value !== null);
  const serving = view.nodes.filter((node) => standing(node)[0] === "well").length;
  const tiles = [
    ["Transactions/s", count(mean("transactions")), p99.length ? `99 % within ${seconds(Math.max(...p99))}` : "none now"],
    ["Reads/s", count(mean("reads")), read99.length ? `99 % within ${seconds(Math.max(...read99))}` : "none now"],
    ["Conflicts/s", count(mean("conflicts")), "begun again"],
    ["Written/s", bytes(mean("written_bytes")), "by committed transactions"],
    ["Read/s", bytes(mean("read_bytes")), "answered by nodes"],
    ["Nodes", `${serving} of ${view.nodes.length}`, "serve"],
    ["Partitions", `${view.partitions.complete} of ${view.partitions.total}`, "complete"],
  ];
  byId("tiles").replaceChildren(...tiles.map(([label, value, note]) => make("div", { class: "tile" },
    make("div", { class: "label" }, label), make("div", { class: "value" }, value), make("div", { class: "note" }, note))));
}

function blobName(one) {
  const keyspace = one.keyspace_name || (one.keyspace === null || one.keyspace === undefined ? "" : `keyspace ${one.keyspace}`);
  return one.blob ? `${keyspace}/${one.blob}` : keyspace;
}

function showHeats(id, heats, nothing) {
  const top = heats.length ? heats[0].per_second : 1;
  table(id, [
    ["Blob", (h) => blobName(h), "key-cell"],
    ["A second", (h) => [h.per_second >= 10 ? count(Math.round(h.per_second)) : h.per_second.toFixed(1), bar(h.per_second / top)], "n"],
  ], heats.slice(0, 10), nothing);
}

function holds(keyspace) {
  if (keyspace.quota_bytes === null) return make("span", { class: "quiet" }, "no quota");
  const part = keyspace.quota_bytes ? keyspace.held_bytes / keyspace.quota_bytes : 1;
  return [`${bytes(keyspace.held_bytes)} of ${bytes(keyspace.quota_bytes)}${part >= 1 ? ", full" : ""}`, bar(part, part > 0.9)];
}

function showKeyspaces(view) {
  table("keyspaces", [
    ["Keyspace", (k) => make("b", {}, k.name)],
    ["Class", (k) => `${k.class}, ${k.durability}${k.multi_version ? "" : ", one version"}`],
    ["Chunks", (k) => bytes(k.chunk_bytes), "n"],
    ["Holds", holds],
    ["Transactions/s", (k) => count(k.recent.transactions), "n"],
    ["Conflicts/s", (k) => count(k.recent.conflicts), "n"],
    ["Median", (k) => seconds(k.recent.transaction_p50), "n"],
    ["99 %", (k) => seconds(k.recent.transaction_p99), "n"],
    ["Written/s", (k) => bytes(k.recent.written_bytes), "n"],
    ["Reads/s", (k) => count(k.recent.reads), "n"],
    ["99 %", (k) => seconds(k.recent.read_p99), "n"],
    ["Read/s", (k) => bytes(k.recent.read_bytes), "n"],
    ["Committed in all", (k) => count(k.total.committed), "n"],
    ...acting(view, [["Acts", (k) => actButton("Quota", `Set the quota of ${k.name}`,
      "Writes by which it would grow past that are refused. What is there stays.", { act: "quota", keyspace: k.keyspace }, k.quota_bytes)]]),
  ], view.keyspaces, "There is no keyspace yet: tyr keyspace create NAME makes one.");
}

function showPins(view) {
  const pin = view.oldest_pin;
  const held = pin
    ? `${plural(view.pins, "reader holds", "readers hold")} versions readable. The oldest pin is ${seconds(pin.seconds)} old: ${pin.client ? `the client at ${pin.client}, ` : ""}${pin.session ? `session ${pin.session} (request ${pin.request})` : "one session"} holds ${blobName(pin)} in ${pin.partition} at node ${pin.node}.`
    : "No reader holds a version.";
  byId("pins").textContent = `${held} ${plural(view.collection_backlog, "blob has", "blobs have")} versions that may be collected.`;
}

const STEPS = {
  start: "begun by its client", pass: "passed along its chain", write: "writes sent to chunks", vote: "vote that a part is durable",
  "ask-vote": "asked for a vote again", outcome: "outcome told",
};
const opened = new Map();

function showSlow(view) {
  const place = byId("slow");
  if (!view.slow.length) {
    opened.clear();
    place.replaceChildren(make("p", { class: "nothing" }, "Nothing took longer than the nodes' --slow-ms since they started."));
    return;
  }
  const fresh = view.slow.slice(0, 12).map((one) => {
    const key = `${one.node}/${one.request}/${one.at_ms}`;
    let shown = opened.get(key);
    if (!shown) {
      const hops = one.hops.map((hop) => make("li", {}, make("span", { class: "after" }, `+${seconds(hop.after_seconds)}`),
        make("span", {}, `${STEPS[hop.step] || hop.step}, ${hop.to === null ? "came to" : `to node ${hop.to} for`} ${hop.partition}`)));
      shown = make("details", {}, make("summary", {},
        make("span", {}, clock(one.at_ms)), make("b", {}, seconds(one.seconds)),
        make("span", { class: "mono" }, `${blobName(one)}${one.blobs > 1 ? ` and ${one.blobs - 1} more` : ""}`),
        make("span", {}, `${one.kind}, ${one.outcome}`), make("span", { class: "quiet" }, `node ${one.node}, shard ${one.shard}`)),
        one.request ? make("p", { class: "quiet" }, `In the logs it is ${one.request}.`) : null,
        hops.length ? make("ol", { class: "hops" }, hops) : make("p", { class: "quiet" }, "It took no further hops, or they are not known any more."));
    }
    return [key, shown];
  });
  opened.clear();
  fresh.forEach(([key, shown]) => opened.set(key, shown));
  const elements = fresh.map(([, shown]) => shown);
  if (elements.length !== place.children.length || elements.some((element, at) => place.children[at] !== element)) {
    const focused = document.activeElement;
    place.replaceChildren(...elements);
    if (place.contains(focused)) focused.focus();
  }
}

const HEALTH = { well: "✓ all is well", degraded: "! degraded", unserved: "✕ partly unserved" };

function showHealth(view) {
  const badge = byId("health");
  badge.className = `badge ${view.health}`;
  if (badge.textContent !== HEALTH[view.health]) badge.textContent = HEALTH[view.health];
  document.title = view.health === "well" ? "Týr" : `${HEALTH[view.health]} – Týr`;
  byId("cluster").textContent =
    `cluster ${view.cluster.slice(0, 8)}, ring version ${view.ring_version}, seen by node ${view.seen_by} at ${clock(view.at_ms)}`;
  const troubles = byId("troubles");
  troubles.hidden = !view.troubles.length;
  troubles.className = `troubles ${view.health}`;
  troubles.replaceChildren(make("b", {}, "What is wrong"), make("ul", {}, view.troubles.map((trouble) => make("li", {}, trouble))));
}

let shown = null;

function show(view) {
  shown = view;
  showViewer(view);
  showHealth(view);
  showTiles(view);
  CHARTS.forEach((chart) => drawChart(chart, view.samples));
  showNodes(view);
  showRing(view);
  showKeyspaces(view);
  showHeats("hot", view.hot, "No blob is read or written now.");
  showHeats("contended", view.contended, "No transaction is refused because of another one.");
  showPins(view);
  showSlow(view);
  document.body.dataset.shown = view.at_ms;
}

function lose(error) {
  const badge = byId("health");
  badge.className = "badge away";
  badge.textContent = "✕ this node does not answer";
  byId("cluster").textContent = shown ? `what is shown was so at ${clock(shown.at_ms)}` : String(error.message || error);
}

let paused = false;

// ---- who looks

// The token is in this tab alone, and goes to this node alone. What a tab keeps may be forbidden; then it lasts as long as the page.
const TOKEN = "tyr-token";
let token = (() => { try { return sessionStorage.getItem(TOKEN); } catch { return null; } })();

function keep(text) {
  token = text;
  try {
    if (text) sessionStorage.setItem(TOKEN, text); else sessionStorage.removeItem(TOKEN);
  } catch { /* not kept */ }
}

const ask = (path, more = {}) => fetch(path, {
  cache: "no-store", credentials: "omit", redirect: "error", ...more,
  headers: { ...more.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) },
});

const errorOf = async (answer) => {
  try { return (await answer.json()).error; } catch { return `the node answers ${answer.status}`; }
};

/** Asks who it is, with the reason why what was shown last is not enough. */
function shut(reason) {
  const hadToken = Boolean(token);
  keep(null);
  shown = null;
  byId("main").hidden = true;
  byId("door").hidden = false;
  byId("leave").hidden = byId("who").hidden = true;
  byId("health").textContent = "";
  byId("health").className = "badge";
  byId("cluster").textContent = "not signed in";
  byId("refused").textContent = hadToken ? reason : "";
  document.body.dataset.shown = "";
  if (!byId("door").contains(document.activeElement)) byId("token").focus();
}

function showViewer(view) {
  const { user, administers } = view.viewer;
  byId("door").hidden = true;
  byId("main").hidden = false;
  byId("who").hidden = byId("leave").hidden = user === null;
  byId("who").textContent = user === null ? "" : `user ${user}`;
  byId("may").textContent = administers ? "You administer the cluster: what you have done here is audited."
    : user === null ? "Read-only." : "Read-only: you see what your rights cover.";
}

byId("door").addEventListener("submit", async (event) => {
  event.preventDefault();
  keep(byId("token").value.trim().replace(/[^ -~]/g, ""));
  byId("token").value = "";
  await refresh();
});
byId("leave").addEventListener("click", () => { keep(null); shut(""); });

// ---- acts

const acting = (view, columns) => (view.viewer.administers ? columns : []);

function actButton(name, title, what, act, size) {
  const button = make("button", { type: "button", "aria-label": title }, name);
  button.addEventListener("click", () => confirmAct(title, what, act, size));
  return button;
}

/** What somebody means by a size: a number of bytes, null for none, undefined for what is no size. */
function sizeOf(text) {
  const units = { "": 1, B: 1, K: 2 ** 10, KIB: 2 ** 10, M: 2 ** 20, MIB: 2 ** 20, G: 2 ** 30, GIB: 2 ** 30, T: 2 ** 40, TIB: 2 ** 40,
    KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };
  const trimmed = text.trim().toUpperCase();
  if (trimmed === "" || trimmed === "NONE") return null;
  const [, digits, unit] = trimmed.match(/^(\d+(?:\.\d+)?)\s*([A-Z]*)$/) || [];
  const size = Math.round(digits * units[unit]);
  return Number.isSafeInteger(size) ? size : undefined;
}

function confirmAct(title, what, act, size) {
  const sure = byId("sure");
  const isSized = size !== undefined;
  byId("sized").hidden = !isSized;
  byId("size").value = isSized && size !== null ? bytes(size) : "";
  byId("t-sure").textContent = `${title}?`;
  byId("sure-what").textContent = what;
  sure.returnValue = "no";
  sure.onclose = () => {
    if (sure.returnValue !== "yes") return;
    const quota = sizeOf(byId("size").value);
    if (isSized && quota === undefined) tell(`${title}: that is no size; write one such as 10 GiB, or none`);
    else haveDone(title, isSized ? { ...act, quota } : act);
  };
  sure.showModal();
}

async function haveDone(title, act) {
  let told;
  try {
    const answer = await ask("/console/v1/act", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(act) });
    told = answer.ok ? `${title}: done.` : `${title}: ${await errorOf(answer)}`;
  } catch (error) {
    told = `${title}: ${error.message || error}`;
  }
  tell(told);
  await refresh();
}

function tell(text) {
  byId("told").textContent = text;
  byId("told").hidden = false;
}

async function refresh() {
  try {
    const answer = await ask("/console/v1/cluster");
    if (answer.status === 401) { shut(await errorOf(answer)); return; }
    if (!answer.ok) throw new Error(await errorOf(answer));
    const view = await answer.json();
    if (view.version !== 1) throw new Error("the node is of another version: load the page again");
    if (!paused) show(view);
  } catch (error) {
    if (!paused) lose(error);
  }
}

async function run() {
  for (;;) {
    if (!paused && !document.hidden && byId("door").hidden) await refresh();
    await new Promise((wake) => setTimeout(wake, EVERY));
  }
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").textContent = paused ? "Go on" : "Pause";
  byId("pause").setAttribute("aria-pressed", String(paused));
});

const dark = matchMedia("(prefers-color-scheme: dark)");

function wear(theme) {
  document.documentElement.dataset.theme = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
}

// What is stored may be forbidden, and nothing rests on it.
const stored = { get: () => { try { return localStorage.getItem("theme"); } catch { return null; } },
  set: (theme) => { try { localStorage.setItem("theme", theme); } catch { /* not kept */ } } };
byId("theme").value = stored.get() || "system";
wear(byId("theme").value);
byId("theme").addEventListener("change", () => { stored.set(byId("theme").value); wear(byId("theme").value); });
dark.addEventListener("change", () => wear(byId("theme").value));
addEventListener("resize", () => { if (shown) CHARTS.forEach((chart) => drawChart(chart, shown.samples)); });

run();
