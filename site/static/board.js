/* Sorting, filtering, columns, pins and exports of the tables of one page. The page is complete without it:
   rows arrive in the order of ranks. The whole view is kept in the address behind #. */
(() => {
  "use strict";
  const KEYS = ["sort", "q", "view", "show", "hide", "arch", "data", "max", "ver", "full", "ci", "heat", "pin"];
  const LISTS = ["sort", "show", "hide", "pin"];
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const bar = document.querySelector("[data-bar]"), line = document.querySelector("[role=status]");
  let state, written;

  /* The view as text and back. Unknown keys and ids are passed over, so that old links open. */
  const read = (text) => {
    const found = {};
    for (const part of text.replace(/^#/, "").split("&")) {
      const at = part.indexOf("="), key = part.slice(0, at);
      if (at < 1 || !KEYS.includes(key)) continue;
      let value;
      try { value = decodeURIComponent(part.slice(at + 1).replace(/\+/g, " ")); } catch { continue; }
      found[key] = LISTS.includes(key) ? value.split(",").filter(Boolean) : value;
    }
    if (found.view === "groups") delete found.view;
    return found;
  };
  const write = () => KEYS.filter((key) => state[key]?.length)
    .map((key) => key + "=" + encodeURIComponent(state[key]).replace(/%2C/g, ",")).join("&");
  const keep = () => {
    const hash = write();
    if (hash === written) return;
    written = hash;
    try { history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search); } catch { /* as is */ }
    if (window.parent !== window) window.parent.postMessage({ queryString: "", hash }, "https://huggingface.co");
  };
  const has = (key, id) => id && (state[key] || []).includes(id);
  const toggled = (key, id, on) => [...(state[key] || []).filter((each) => each !== id), ...(on ? [id] : [])];

  /* What the page holds. */
  const boards = all("table[data-board]").map((table) => {
    const heads = all("thead tr:last-child > *", table).map((th, place) => ({
      th, place, id: th.dataset.c, title: (th.querySelector(".sort") || th).textContent.trim(),
      lower: th.dataset.dir === "lower", group: th.dataset.group, folded: th.classList.contains("fold"),
      column: +(th.dataset.k ?? -1), chosen: "group" in th.dataset, skip: th.classList.contains("pin"),
    }));
    const rows = all("tbody tr", table).map((tr, order) => {
      const data = tr.dataset, name = tr.querySelector("th").textContent.trim();
      return {
        tr, order, name, id: data.m, text: [name, data.m, tr.querySelector(".setting")?.textContent].join(" ").toLowerCase(),
        keys: (data.k || "").split(" ").map((key) => key === "-" ? NaN : +key), arch: data.arch,
        data: (data.data || "").split(" "), size: +(data.size || NaN), ver: data.ver, full: "full" in data,
        pin: tr.querySelector("input"),
      };
    });
    const start = heads.find((head) => head.th.ariaSort), down = start?.th.ariaSort === "descending";
    return {
      table, heads, rows, start, down, id: table.dataset.board, body: table.tBodies[0],
      first: start && (down ? "-" : "") + start.id, groups: all(".groups > *", table).map((cell) => [cell, cell.colSpan]),
    };
  });
  const columns = new Map(boards.flatMap((board) => board.heads).filter((head) => head.chosen).map((head) => [head.id, head]));
  const opening = [...columns.values()].some((head) => head.folded) ? "groups" : "all";
  const shown = (head) => {
    if (!head.chosen) return true;
    const view = state.view || opening;
    const base = view === "all" || (view === "groups" ? !head.folded : [view, ""].includes(head.group));
    return (base || has("show", head.id)) && !has("hide", head.id);
  };

  /* The order of rows: what has no number stays last both ways, pinned rows first. */
  const sorting = (board) => {
    let found;
    for (const word of state.sort || []) {
      const head = board.heads.find((each) => each.id && each.id === word.replace(/^-/, ""));
      if (head) found = { head, down: word[0] === "-", word };
    }
    return found?.word === board.first ? undefined : found;
  };
  const ordered = (board) => {
    const sort = sorting(board), rows = [...board.rows];
    if (sort) {
      const k = sort.head.column, sign = sort.down === (k >= 0 && !sort.head.lower) ? 1 : -1;
      rows.sort((a, b) => {
        if (k < 0) return sign * a.name.localeCompare(b.name) || a.order - b.order;
        const x = a.keys[k], y = b.keys[k];
        return isNaN(x) - isNaN(y) || (isNaN(x) ? 0 : sign * (x - y)) || a.order - b.order;
      });
    }
    return [...rows.filter((row) => has("pin", row.id)), ...rows.filter((row) => !has("pin", row.id))];
  };
  const matches = (row) => has("pin", row.id) || (
    (state.q || "").toLowerCase().split(/\s+/).every((word) => row.text.includes(word)) &&
    (!state.arch || row.arch === state.arch) && (!state.data || row.data.includes(state.data)) &&
    (!state.max || row.size <= state.max * 1e6) && (!state.ver || row.ver === state.ver) && (!state.full || row.full));

  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [sheet];
  const say = (words) => { if (line.textContent !== words) line.textContent = words; };
  const draw = () => {
    const rules = [], words = [], pins = (state.pin || []).filter((id) => boards.some((b) => b.rows.some((row) => row.id === id)));
    let seen = 0, total = 0;
    for (const board of boards) {
      for (const head of board.heads) {
        if (!shown(head)) rules.push(`[data-board="${board.id}"] tr:not(.groups)>:nth-child(${head.place + 1})`);
      }
      let at = 0;
      for (const [cell, span] of board.groups) {
        const n = board.heads.slice(at, at += span).filter(shown).length;
        cell.hidden = !n;
        cell.colSpan = n || 1;
      }
      const rows = ordered(board), sort = sorting(board);
      if (rows.some((row, i) => board.body.rows[i] !== row.tr)) board.body.replaceChildren(...rows.map((row) => row.tr));
      for (const row of rows) {
        const pinned = !!has("pin", row.id);
        row.tr.hidden = !matches(row);
        row.tr.classList.toggle("pinned", pinned);
        if (row.pin) row.pin.checked = pinned;
        seen += !row.tr.hidden;
        total += 1;
      }
      const { head, down } = sort || { head: board.start, down: board.down };
      for (const each of board.heads) each.th.ariaSort = each === head ? (down ? "descending" : "ascending") : null;
      if (head && (boards.length === 1 || sort)) {
        const ends = head.column < 0 ? ["A", "Z"] : ["low", "high"];
        words.push(`, sorted by ${head.title}, ${(down ? ends.reverse() : ends).join(" to ")}`);
      }
      board.table.classList.toggle("no-ci", state.ci === "0");
      board.table.classList.toggle("no-heat", state.heat === "0");
      board.table.classList.add("ready");
    }
    sheet.replaceSync(rules.length ? `${rules}{display:none}` : "");
    say(`Showing ${seen} of ${total} ${bar?.dataset.noun || "models"}${words.join("")}${pins.length ? `, ${pins.length} pinned` : ""}`);
    for (const field of bar ? all("[data-key]", bar) : []) {
      const { key, on, empty = "" } = field.dataset, value = state[key] || empty;
      if (field.type === "checkbox") field.checked = on ? value === on : value !== "0";
      else if (field.value !== value) {
        field.value = value;
        if (field.value !== value) field.value = empty;
      }
    }
    for (const box of all("[data-col]")) box.checked = shown(columns.get(box.dataset.col));
    const set = ["arch", "data", "max", "ver", "full"].filter((key) => state[key]).length;
    for (const count of all("[data-count]")) count.textContent = set ? ` (${set})` : "";
    for (const link of all("[data-compare]")) {
      link.hidden = pins.length < 2;
      link.href = `${link.dataset.compare}#m=${pins}`;
    }
  };
  const change = (key, value) => {
    state[key] = value;
    draw();
    keep();
  };

  /* Exports of what is on screen. The CSV takes unrounded numbers from a file beside the page. */
  const plain = (cell) => {
    const copy = cell.cloneNode(true);
    for (const mark of all(`[aria-hidden],.aside${state.ci === "0" ? ",small" : ""}`, copy)) mark.remove();
    return copy.textContent.replace(/\s+/g, " ").trim();
  };
  const part = (board) => {
    const heads = board.heads.filter((head) => shown(head) && !head.skip);
    const rows = ordered(board).filter((row) => !row.tr.hidden);
    return { heads, rows, words: rows.map((row) => heads.map((head) => plain(row.tr.cells[head.place]))) };
  };
  const quote = (value) => {
    let word = String(value ?? "");
    if (typeof value === "string" && /^\s*[=+\-@\t\r＝＋－＠]/.test(word)) word = "'" + word;
    return /[",\n\r]/.test(word) ? `"${word.replace(/"/g, '""')}"` : word;
  };
  const csv = (board, exact) => {
    const { heads, rows, words } = part(board), chosen = heads.filter((head) => head.chosen);
    const lines = exact ? [
      ["model", "name", "status", "rank_best", "rank_worst",
        ...chosen.flatMap(({ id }) => [id, id + "_low", id + "_high", id + "_status"])],
      ...rows.map((row) => {
        const found = exact.rows.find((each) => each[0] === row.id);
        return [...found.slice(0, 5), ...chosen.flatMap((head) => found[5][exact.columns.indexOf(head.id)])];
      }),
    ] : [heads.map((head) => head.title), ...words];
    return lines.map((each) => each.map(quote).join(",")).join("\n") + "\n";
  };
  const markdown = (board) => {
    const { heads, words } = part(board), row = (each) => `| ${each.join(" | ")} |`;
    const safe = (word) => word.replace(/[\\`*_[\]<>|#&~]/g, "\\$&");
    const marks = row(heads.map((head) => head.column < 0 ? "---" : "---:"));
    return [row(heads.map((head) => safe(head.title))), marks, ...words.map((each) => row(each.map(safe))), ""].join("\n");
  };
  const MARKS = {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "−": "$-$",
    "–": "--", "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", '"': "\\textquotedbl{}",
  };
  const latex = (board) => {
    const { heads, words } = part(board);
    const safe = (word) => word.replace(/[&%$#_{}\\~^±−–<>|"]/g, (mark) => MARKS[mark] || "\\" + mark);
    const row = (each) => each.map(safe).join(" & ") + " \\\\";
    return [
      "% needs \\usepackage{booktabs}", "% " + location.href, "\\begin{table}", "\\centering",
      `\\caption{${safe(board.table.caption.textContent.trim())}}`,
      `\\begin{tabular}{${heads.map((head) => head.column < 0 ? "l" : "r").join("")}}`, "\\toprule",
      row(heads.map((head) => head.title)), "\\midrule", ...words.map(row), "\\bottomrule", "\\end{tabular}", "\\end{table}", "",
    ].join("\n");
  };
  const FORMATS = { csv, md: markdown, tex: latex };
  const make = (format, then) => {
    const board = boards[0], source = board.table.dataset.exact, store = window.robustboard ||= {};
    if (format !== "csv" || !source || store[board.id]) return then(FORMATS[format](board, store[board.id]));
    const script = document.createElement("script");
    script.src = source;
    script.onload = () => then(csv(board, store[board.id]));
    script.onerror = () => say("The numbers could not be loaded; the page Data has them all");
    document.head.append(script);
  };
  const save = (format) => make(format, (made) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([made], { type: "text/plain;charset=utf-8" }));
    link.download = `${boards[0].id}.${format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 9e3);
    say("Saved " + link.download);
  });
  const copy = (words, what) => {
    const old = () => {
      const area = document.createElement("textarea");
      area.value = words;
      document.body.append(area);
      area.select();
      say(document.execCommand("copy") ? "Copied " + what : "This browser does not let the page copy");
      area.remove();
    };
    if (navigator.clipboard) navigator.clipboard.writeText(words).then(() => say("Copied " + what), old); else old();
  };

  /* A choice that the page no longer offers is passed over. */
  const load = () => {
    state = read(location.hash);
    for (const key of ["view", "arch", "data", "max", "ver"]) {
      const field = bar?.querySelector(`select[data-key=${key}]`);
      if (field && state[key]) field.value = state[key];
      if (field?.value !== state[key]) delete state[key];
    }
    if (boards.length) draw();
  };

  /* Hands. */
  document.addEventListener("click", ({ target }) => {
    for (const pop of all(".pop[open]")) if (!pop.contains(target)) pop.open = false;
    const button = target.closest("button"), data = button?.dataset;
    if (!button) return;
    if (button.className.includes("sort")) {
      const board = boards.find((each) => each.table.contains(button));
      const head = board.heads.find((each) => each.th.contains(button)), was = head.th.ariaSort;
      const word = ((was ? was === "descending" : head.lower || head.column < 0) ? "" : "-") + head.id;
      const own = board.heads.flatMap(({ id }) => [id, "-" + id]);
      const others = (state.sort || []).filter((each) => !own.includes(each));
      change("sort", word === board.first ? others : [...others, word]);
    } else if (data.save) save(data.save);
    else if (data.copy) make(data.copy, (made) => copy(made, "the table"));
    else if ("link" in data) copy(location.href, "the link to this view");
    else if ("reset" in data) {
      state = {};
      draw();
      keep();
    }
  });
  document.addEventListener("input", ({ target }) => {
    const { key, on = "", empty, col } = target.dataset, head = columns.get(col);
    if (head) {
      state.show = toggled("show", col, false);
      state.hide = toggled("hide", col, false);
      const list = target.checked ? "show" : "hide";
      change(list, shown(head) === target.checked ? state[list] : [...state[list], col]);
    } else if (target.className === "tick") {
      change("pin", toggled("pin", target.closest("tr").dataset.m, target.checked));
      target.focus();
    } else if (key === "view") {
      state.show = state.hide = [];
      change(key, target.value === empty ? "" : target.value);
    } else if (target.type === "checkbox" && key) change(key, target.checked ? on : on ? "" : "0");
    else if (key) change(key, target.value);
  });
  document.addEventListener("keydown", (event) => {
    const open = document.querySelector(".pop[open]");
    if (event.key !== "Escape" || !open) return;
    open.open = false;
    open.firstElementChild.focus();
  });
  window.addEventListener("hashchange", () => {
    if (location.hash.slice(1) === written) return;
    load();
  });
  load();
})();
