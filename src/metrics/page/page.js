"use strict";
// Text of peers reaches the page by `textContent` alone.
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const slots = new Map(); // of all routes: number -> [count, failed, p50, p90, p99, most], in microseconds
const routeSlots = new Map(); // pattern -> Map of the same
let before = null, paused = false;

const make = (name, attributes = {}, text) => {
  const node = name.startsWith("svg:")
    ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

const digits = (number) => number >= 100 ? number.toFixed(0) : number >= 10 ? number.toFixed(1) : number.toFixed(2);
const count = (number) => number >= 1e6 ? digits(number / 1e6) + " M" : number >= 1e4 ? digits(number / 1e3) + " k"
  : Number.isInteger(number) ? String(number) : digits(number);
const time = (us) => us >= 1e6 ? digits(us / 1e6) + " s" : us >= 1e3 ? digits(us / 1e3) + " ms" : Math.round(us) + " µs";
const bytes = (number) => {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (number < 1024 || unit === "GiB") return (unit === "B" ? Math.round(number) : digits(number)) + " " + unit;
    number /= 1024;
  }
};
const percent = (share) => (100 * share).toFixed(share > 0 && share < 0.1 || share > 0.99 && share < 1 ? 2 : 0) + "%";
const ago = (seconds) => seconds < 90 ? Math.round(seconds) + " s" : seconds < 5400 ? Math.round(seconds / 60) + " min"
  : Math.round(seconds / 3600) + " h";

/// Puts rows into a table. A cell is a text, a node, or a text with a class.
function fill(id, rows, none) {
  const body = $(id).tBodies[0], columns = $(id).tHead.rows[0].cells.length;
  const made = rows.map((cells) => {
    const row = make("tr");
    cells.forEach((cell, at) => {
      const [content, kind] = Array.isArray(cell) ? cell : [cell, ""];
      const node = make(at === 0 ? "th" : "td", at === 0 ? { scope: "row" } : {});
      if (kind) node.className = kind;
      node.append(content);
      row.append(node);
    });
    return row;
  });
  if (!made.length) {
    const row = make("tr");
    row.append(make("td", { class: "none", colspan: columns }, none));
    made.push(row);
  }
  body.replaceChildren(...made);
}

/// Draws curves over the slots of ten minutes; a value of null leaves a gap. Without a value there is no scale.
function chart(id, curves, label, logarithmic) {
  const svg = $(id), width = svg.clientWidth || 600, [left, right, top, bottom] = [56, width - 10, 12, 150];
  svg.setAttribute("viewBox", `0 0 ${width} 180`);
  const known = curves.flat().filter((value) => value !== null), all = known.filter((value) => value > 0);
  const most = Math.max(...all, logarithmic ? 1000 : 1), least = logarithmic ? Math.min(...all, most / 100) : 0;
  const scale = (value) => logarithmic ? Math.log(Math.max(value, least) / least) / Math.log(most / least) : value / most;
  const y = (value) => bottom - (bottom - top) * scale(value);
  const x = (at, length) => left + (right - left) * at / Math.max(length - 1, 1);
  const nodes = [];
  for (const part of [0, 0.5, 1]) {
    const value = logarithmic ? least * (most / least) ** part : most * part;
    nodes.push(make("svg:line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }));
    if (known.length) nodes.push(make("svg:text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, label(value)));
  }
  [["10 min ago", left, "start"], ["5 min", (left + right) / 2, "middle"], ["now", right, "end"]].forEach(
    ([text, at, anchor]) => nodes.push(make("svg:text", { x: at, y: 170, "text-anchor": anchor }, text)));
  curves.forEach((curve, which) => nodes.push(path(curve, x, y, "curve s" + which)));
  svg.replaceChildren(...nodes);
}

function path(values, x, y, kind) {
  let line = "", drawn = false;
  values.forEach((value, at) => {
    if (value === null) { drawn = false; return; }
    const point = x(at, values.length).toFixed(1) + " " + y(value).toFixed(1);
    line += drawn ? "L" + point : "M" + point + "h.1";
    drawn = true;
  });
  return make("svg:path", { class: kind, d: line });
}

function spark(values) {
  const svg = make("svg:svg", { class: "spark", viewBox: "0 0 120 24", "aria-hidden": "true" });
  const most = Math.max(...values.map((value) => value ?? 0), 1);
  svg.append(path(values, (at, length) => 1 + 118 * at / (length - 1), (value) => 22 - 20 * value / most, "curve s0"));
  return svg;
}

/// The values of the last slots, the oldest first; that of the slot which is still growing is left out.
function history(data, source, value) {
  const values = [];
  for (let number = data.slot - data.slots + 1; number < data.slot; number++) {
    const slot = source.get(number);
    values.push(slot ? value(slot) : null);
  }
  return values;
}

function remember(map, data, fresh) {
  for (const [number, slot] of Object.entries(fresh)) map.set(Number(number), slot);
  for (const number of map.keys()) if (number <= data.slot - data.slots) map.delete(number);
}

function tiles(data) {
  const [total, failed, p50, , p99] = data.recent, sum = (key) => data.cores.reduce((all, core) => all + core[key], 0);
  const rows = [
    ["Exchanges a second", count(total / data.recentSeconds)],
    ["Failed", total ? percent(failed / total) : "none", failed > 0],
    ["Half respond within", total ? time(p50) : "–"],
    ["99% respond within", total ? time(p99) : "–"],
    ["Connections", count(sum("open"))],
    ["Open exchanges", count(sum("exchanges"))],
    ["Memory", data.process.resident === null ? "–" : bytes(data.process.resident)],
    ["CPU", before && data.process.cpu !== null
      ? percent((data.process.cpu - before.process.cpu) / (data.uptime - before.uptime)) : "–"],
    ["Descriptors", data.process.fds === null ? "–" : count(data.process.fds)],
    ["Counting since", ago(data.uptime)],
  ];
  $("tiles").replaceChildren(...rows.map(([name, value, bad]) => {
    const tile = make("div");
    tile.append(make("dt", {}, name), make("dd", bad ? { class: "bad" } : {}, value));
    return tile;
  }));
}

function legend(id, entries) {
  $(id).replaceChildren(...entries.flatMap((text, which) => {
    const entry = make("span");
    entry.append(make("span", { class: "key k" + which, "aria-hidden": "true" }), text);
    return which < entries.length - 1 ? [entry, ", "] : [entry];
  }));
}

function charts(data) {
  const rates = history(data, slots, (slot) => slot[0] / data.slotSeconds).map((value) => value ?? 0);
  const failures = history(data, slots, (slot) => slot[1] / data.slotSeconds).map((value) => value ?? 0);
  chart("rate", [rates, failures], count, false);
  // Before the first slot is complete, nothing is known of any.
  legend("rate-text", data.slot < 2 ? [] : [`all: ${count(rates.at(-1))} now, at most ${count(Math.max(...rates))}`,
    `failed: ${count(failures.at(-1))} now, at most ${count(Math.max(...failures))}`]);
  const times = [2, 3, 4].map((at) => history(data, slots, (slot) => slot[0] ? slot[at] : null));
  chart("time", times, time, true);
  legend("time-text", ["50%", "90%", "99%"].flatMap((name, which) => {
    const known = times[which].filter((value) => value !== null);
    return known.length ? [`${name}: ${time(known.at(-1))}, at most ${time(Math.max(...known))}`] : [];
  }));
}

function routes(data) {
  const rows = data.routes.map((route) => {
    if (!routeSlots.has(route.pattern)) routeSlots.set(route.pattern, new Map());
    const own = routeSlots.get(route.pattern), [total, failed, p50, p90, p99, most] = route.recent;
    remember(own, data, route.slots);
    const [none, informational, ...classes] = route.classes;
    const times = [p50, p90, p99, most].map((us) => total ? time(us) : "–");
    return [[route.pattern, "text"], count(total / data.recentSeconds),
      [total ? percent(failed / total) : "–", failed ? "bad" : ""], ...times,
      spark(history(data, own, (slot) => slot[0] ? slot[4] : null)), ...classes.map(count), count(none + informational),
      [route.methods.map(([method, number]) => method + " " + count(number)).join(", "), "text"]];
  });
  fill("routes", rows, "No exchange yet.");
}

function slow(data) {
  fill("slow", data.slow.map((one) => {
    const handlerAt = one.handler ?? one.response ?? one.took, responseAt = one.response ?? one.took;
    const parts = [handlerAt, Math.max(responseAt - handlerAt, 0), Math.max(one.took - responseAt, 0)];
    const bar = make("span", { class: "bar", "aria-hidden": "true" });
    parts.forEach((part) => bar.append(make("i")));
    [...bar.children].forEach((part, at) => { part.style.flex = String(parts[at]); });
    const cell = make("span");
    cell.append(bar, " " + parts.map(time).join(" / "));
    const largest = parts.indexOf(Math.max(...parts));
    const mostly = ["receiving", "handler", "sending"][largest] + (one.cut ? ", cut by " + one.cut : "");
    return [time(one.took), [cell, "left"], [mostly, one.cut ? "left bad" : "left"], [one.request, "text"], [one.pattern || "–", "text"],
      one.status ?? "none", bytes(one.sent), one.peer, ago(one.ago)];
  }), "No exchange yet.");
}

function errors(data) {
  fill("errors", data.errors.map((error) => [error.kind, [count(error.count), "bad"],
    error.ago === null ? "–" : ago(error.ago) + " ago", [error.text ?? "–", "text"]]), "No error yet.");
}

function hosts(data) {
  $("hosts-section").hidden = !data.hosts.length;
  fill("hosts", data.hosts.map((host) => {
    const [answered, failed, p50, , p99] = host.recent || [], total = answered + failed;
    const long = Object.entries(host.phases).filter(([, us]) => us >= 1000);
    const failures = host.failures.map(([phase, number]) => phase + " " + count(number)).join(", ");
    return [[host.host, "text"], host.recent ? count(total / data.recentSeconds) : "–",
      [total ? percent(failed / total) : "–", failed ? "bad" : ""], ...[p50, p99].map((us) => answered ? time(us) : "–"),
      count(host.busy), count(host.idle), count(host.dials), host.answered ? percent(host.reused / host.answered) : "–",
      count(host.stale) + " / " + count(host.retries),
      [long.map(([phase, us]) => phase + " " + time(us)).join(", ") || "–", "text"],
      [failures || "none", failures ? "text bad" : "text"]];
  }), "No request yet.");
}

function balancers(data) {
  $("balancers-section").hidden = !data.balancers.length;
  fill("balancers", data.balancers.map((host) => {
    const [, ...classes] = host.classes, troubles = host.troubles.join(", ");
    return [[host.balancer + (host.panic ? " (panic)" : ""), host.panic ? "bad" : ""],
      [host.host + (host.address && " at " + host.address), "text"],
      [troubles || "fit", troubles ? "text bad" : "text"], count(host.tier), count(host.weight), count(host.pending),
      count(host.penalties), ...classes.map(count), [count(host.failed), host.failed ? "bad" : ""], count(host.ejections)];
  }), "No host.");
}

function cores(data) {
  const rate = (core, key) => {
    const old = before && before.cores.find((one) => one.core === core.core);
    return old ? (core[key] - old[key]) / (data.uptime - before.uptime) : null;
  };
  fill("cores", data.cores.map((core) => {
    const [requests, received, sent, busy] = ["requests", "received", "sent", "busy"].map((key) => rate(core, key));
    return [String(core.core), count(core.open), count(core.exchanges), requests === null ? "–" : count(requests),
      received === null ? "–" : bytes(received), sent === null ? "–" : bytes(sent),
      ...[2, 4].map((at) => core.recent[0] ? time(core.recent[at]) : "–"),
      core.timed && busy !== null ? percent(Math.min(busy, 1)) : "–",
      core.timed ? [count(core.blocked), core.blocked ? "bad" : ""] : "not timed",
      core.timed ? time(core.longest) + (core.longestRoute ? " in " + core.longestRoute : "") : "–",
      core.waited === null ? count(core.accepted) : count(core.accepted) + ", " + time(core.waited), core.cut.map(count).join(" / ")];
  }), "No core yet.");
}

function memory(data) {
  fill("memory", data.memory.map((one) => [[one.kind, "text"], count(one.kept), bytes(one.bytes),
    count(one.hits), count(one.misses), one.hits + one.misses ? percent(one.hits / (one.hits + one.misses)) : "–"]),
  "Nothing was used yet.");
}

function show(data) {
  if (!before || data.uptime < before.uptime) { slots.clear(); routeSlots.clear(); before = null; }
  remember(slots, data, data.total);
  if (!paused) [tiles, charts, routes, slow, errors, hosts, balancers, cores, memory].forEach((part) => part(data));
  before = data;
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("state").textContent = paused ? "paused" : "live";
});

const source = new EventSource("?events");
source.addEventListener("message", (event) => {
  show(JSON.parse(event.data));
  const text = paused ? "paused" : "live";
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").className = "";
});
source.addEventListener("error", () => {
  $("state").textContent = "connection lost";
  $("state").className = "lost";
});
