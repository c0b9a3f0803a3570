// The page of comparisons: the address holds the models, #m=a,b,c, and the one compared with, &base=b.
"use strict";
(() => {
  const page = document.getElementById("compare");
  if (!page) return;
  const $ = (id) => document.getElementById(id);
  const known = new Map([...$("known").options].map((option) => [option.value, option.textContent]));
  const loaded = new Map();
  const failed = new Set();
  let chosen = [];
  let base = "";

  // ---- what the address says ----
  function read() {
    const values = new Map();
    for (const part of location.hash.slice(1).split("&")) {
      const at = part.indexOf("=");
      if (at < 1) continue;
      try { values.set(part.slice(0, at), decodeURIComponent(part.slice(at + 1))); } catch { /* not an address of ours */ }
    }
    const names = (values.get("m") || "").split(",").filter(Boolean);
    const strange = names.filter((name) => !known.has(name));
    chosen = [...new Set(names.filter((name) => known.has(name)))];
    base = chosen.includes(values.get("base")) ? values.get("base") : chosen[0] || "";
    show(strange.length ? `There is no model ${strange.join(", ")} here. ` : "");
  }
  function write() {
    const more = base && base !== chosen[0] ? `&base=${encodeURIComponent(base)}` : "";
    const hash = chosen.length ? `#m=${chosen.map(encodeURIComponent).join(",")}${more}` : "#";
    history.replaceState(null, "", hash);
    if (window.parent !== window) window.parent.postMessage({ hash, queryString: "" }, "https://huggingface.co");
  }

  // ---- numbers of a model ----
  window.robustboardOutcomes = (data) => loaded.set(data.model, data);
  const load = (model) => new Promise((done) => {
    if (loaded.has(model) || failed.has(model)) { done(); return; }
    const script = document.createElement("script");
    script.src = `${page.dataset.outcomes}${encodeURIComponent(model)}.js`;
    script.onload = done;
    script.onerror = () => { failed.add(model); done(); };
    document.head.append(script);
  });
  function bytes(text) {
    const raw = atob(text);
    const found = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i += 1) found[i] = raw.charCodeAt(i);
    return found;
  }
  function parts(row) {
    const found = new Float64Array(row.n);
    for (const [text, weight] of row.bits) {
      const data = bytes(text);
      for (let i = 0; i < row.n; i += 1) if ((data[i >> 3] >> (7 - (i & 7))) & 1) found[i] += weight;
    }
    return found;
  }

  // ---- statistics, as in robustboard/leaderboard/pairs.py ----
  const Z = 1.959963984540054;
  function mcnemar(a, b) {
    const n = a + b, least = Math.min(a, b);
    if (n === 0) return 1;
    let term = -n * Math.LN2, sum = Math.exp(term);
    for (let k = 1; k <= least; k += 1) {
      term += Math.log(n - k + 1) - Math.log(k);
      sum += Math.exp(term);
    }
    return Math.min(2 * sum, 1);
  }
  function erfc(x) {
    // A series near 0, a continued fraction far out, where the series loses its digits.
    if (x < 2.5) {
      let term = x, sum = x;
      for (let k = 1; k < 80; k += 1) { term *= (-x * x) / k; sum += term / (2 * k + 1); }
      return 1 - (2 / Math.sqrt(Math.PI)) * sum;
    }
    let fraction = 0;
    for (let k = 60; k > 0; k -= 1) fraction = k / 2 / (x + fraction);
    return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + fraction);
  }
  function paired(row, other) {
    const a = parts(row), b = parts(other);
    let onlyA = 0, onlyB = 0, sum = 0, squares = 0, binary = true;
    for (let i = 0; i < a.length; i += 1) {
      const gap = a[i] - b[i];
      if (gap > 0) onlyA += 1; else if (gap < 0) onlyB += 1;
      if ((a[i] !== 0 && a[i] !== 1) || (b[i] !== 0 && b[i] !== 1)) binary = false;
      sum += gap;
      squares += gap * gap;
    }
    const count = a.length, mean = sum / count;
    if (binary) {
      const plus = onlyA + 0.5, minus = onlyB + 0.5, total = count + 2;
      const error = Math.sqrt(Math.max(plus + minus - (plus - minus) ** 2 / total, 0)) / total;
      const middle = (plus - minus) / total;
      return { difference: (onlyA - onlyB) / count, low: Math.max(middle - Z * error, -1), high: Math.min(middle + Z * error, 1), p: mcnemar(onlyA, onlyB), how: `${onlyA} to ${onlyB} images` };
    }
    const error = Math.sqrt(Math.max(squares - count * mean * mean, 0) / (count - 1) / count);
    const p = error > 1e-15 ? erfc(Math.abs(mean / error) / Math.SQRT2) : Math.abs(mean) < 1e-15 ? 1 : 0;
    return { difference: mean, low: Math.max(mean - Z * error, -1), high: Math.min(mean + Z * error, 1), p, how: `mean over ${count} images` };
  }
  function holm(tests) {
    const ordered = [...tests].sort((x, y) => x.p - y.p);
    let highest = 0;
    ordered.forEach((test, step) => {
      highest = Math.max(highest, Math.min((ordered.length - step) * test.p, 1));
      test.adjusted = highest;
    });
  }
  function compared(row, other) {
    if (row.key.slice(0, 16) !== other.key.slice(0, 16)) return { verdict: "unknown", how: "not measured alike" };
    const difference = row.value - other.value;
    if (row.doubted || other.doubted) return { difference, verdict: "unknown", how: "a sanity flag doubts a number" };
    if (row.bits && other.bits && row.key === other.key) return paired(row, other);
    if (row.low === null || other.low === null) return { difference, verdict: "unknown", how: "no interval" };
    const tied = row.low <= other.high && other.low <= row.high;
    return { difference, verdict: tied ? "tied" : "clear", how: tied ? "intervals overlap" : "intervals apart" };
  }

  // ---- what is shown ----
  const MINUS = "\u2212";
  const number = (row, value) => ((row.percent ? 100 : 1) * value).toFixed(row.digits).replace("-", MINUS);
  const signed = (row, value) => `${value > 0 ? "+" : ""}${number(row, value)}`.replace(/^\+0\.0+$/, "0.0");
  const pText = (p) => (p < 0.001 ? "p < 0.001" : `p ${p.toPrecision(2)}`);
  function make(name, text, kind) {
    const found = document.createElement(name);
    if (text !== undefined) found.textContent = text;
    if (kind) found.className = kind;
    return found;
  }
  const rowId = (row) => `${row.dataset}/${row.benchmark}/${row.score}`;
  function title(row) {
    const [metric, condition] = row.score.split("@");
    const head = make("th", undefined, "name");
    head.scope = "row";
    head.append(make("bdi", row.benchmarkName), make("small", `${row.datasetName}; ${metric.replaceAll("_", " ")}, ${condition}${row.lower ? "; lower is better" : ""}`));
    return head;
  }
  function cell(row, found) {
    if (!row) { const empty = make("td", undefined, "gap"); empty.append(make("span", "not run")); return empty; }
    const box = make("td", number(row, row.value), row.doubted ? "n gap" : "n");
    if (row.doubted) box.append(" ", make("span", "! doubted"));
    if (!found) { if (row.low !== null) box.append(" ", make("small", `${number(row, row.low)} to ${number(row, row.high)}`)); return box; }
    if (found.difference !== undefined) {
      const reach = found.low === undefined ? "" : ` (${signed(row, found.low)} to ${signed(row, found.high)})`;
      box.append(make("br"), make("span", `${signed(row, found.difference)}${reach}`, "gap-text"));
    }
    const how = found.adjusted === undefined ? found.how : `${found.how}, ${pText(found.adjusted)}`;
    box.append(make("br"), make("b", found.verdict, `verdict ${found.verdict}`), " ", make("small", how));
    return box;
  }
  function table(words) {
    const models = chosen.filter((model) => loaded.has(model));
    const byModel = new Map(models.map((model) => [model, new Map(loaded.get(model).rows.map((row) => [rowId(row), row]))]));
    const ids = new Map();
    for (const rows of byModel.values()) for (const [id, row] of rows) if (!ids.has(id)) ids.set(id, row);
    const order = [...ids.keys()].sort();
    const results = new Map(), tests = [];
    for (const id of order) {
      const against = byModel.get(base)?.get(id);
      for (const model of models) {
        const row = byModel.get(model).get(id);
        if (model === base || !row) continue;
        const found = against ? compared(row, against) : { verdict: "unknown", how: "not run there" };
        results.set(`${model} ${id}`, found);
        if (found.p !== undefined) tests.push(found);
      }
    }
    holm(tests);
    for (const test of tests) test.verdict = test.adjusted < 0.05 ? "clear" : "tied";
    const head = make("tr"), corner = make("th", "Score", "name");
    corner.scope = "col";
    head.append(corner);
    const columns = [base, ...models.filter((model) => model !== base)].filter((model) => byModel.has(model));
    for (const model of columns) {
      const box = make("th", undefined, "n"), link = make("a");
      box.scope = "col";
      link.href = `${page.dataset.models}${encodeURIComponent(model)}.html`;
      link.append(make("bdi", loaded.get(model).name));
      box.append(link);
      if (model === base) box.append(make("br"), make("small", "compared with"));
      head.append(box);
    }
    const body = order.map((id) => {
      const line = make("tr");
      line.append(title(ids.get(id)));
      for (const model of columns) line.append(cell(byModel.get(model).get(id), model === base ? null : results.get(`${model} ${id}`)));
      return line;
    });
    $("table").tHead.replaceChildren(head);
    $("table").tBodies[0].replaceChildren(...body);
    $("region").hidden = body.length === 0;
    const verdicts = [...results.values()].map((found) => found.verdict);
    const count = (verdict) => verdicts.filter((each) => each === verdict).length;
    const missing = chosen.filter((model) => failed.has(model) || (loaded.has(model) && loaded.get(model).rows.length === 0));
    const nothing = missing.length ? ` Nothing is measured of ${missing.map((model) => known.get(model)).join(", ")}.` : "";
    if (chosen.length < 2) $("said").textContent = `${words}Choose two or more models.${nothing}`;
    else $("said").textContent = `${words}${chosen.length} models, ${order.length} scores: ${count("clear")} differences are clear, ${count("tied")} cannot be told apart, ${count("unknown")} are not comparable.${nothing}`;
  }
  function show(words = "") {
    $("chosen").replaceChildren(...chosen.map((model) => {
      const item = make("li"), button = make("button", `Remove ${known.get(model)}`, "button");
      button.type = "button";
      button.addEventListener("click", () => {
        chosen = chosen.filter((each) => each !== model);
        if (base === model) base = chosen[0] || "";
        write();
        show();
        $("add").focus();
      });
      item.append(button);
      return item;
    }));
    $("baseline").replaceChildren(...chosen.map((model) => {
      const option = make("option", known.get(model));
      option.value = model;
      option.selected = model === base;
      return option;
    }));
    $("baseline").disabled = chosen.length < 2;
    Promise.all(chosen.map(load)).then(() => table(words));
  }

  function choose() {
    const typed = $("add").value.trim();
    const found = known.has(typed) ? typed : [...known].find(([, name]) => name === typed)?.[0];
    if (!found) { show(`There is no model "${typed}" here. `); return; }
    if (!chosen.includes(found)) chosen.push(found);
    base = base || found;
    $("add").value = "";
    write();
    show();
  }
  $("choose").addEventListener("click", choose);
  $("add").addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
  $("baseline").addEventListener("change", () => { base = $("baseline").value; write(); show(); });
  $("link").addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(location.href); $("said").textContent = "The link is copied."; }
    catch { $("said").textContent = location.href; }
  });
  window.addEventListener("hashchange", read);
  read();
})();
