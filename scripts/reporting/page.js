"use strict";
// What a mark says, beside the pointer or the focus.
const tip = document.getElementById("tip");
function showTip(mark, x, y) {
  tip.textContent = mark.dataset.tip;
  tip.hidden = false;
  tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (y + 16 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 8 : y + 16) + "px";
}
const marked = (event) => event.target.closest && event.target.closest("[data-tip]");
document.addEventListener("pointermove", (event) => {
  const mark = marked(event);
  if (mark) showTip(mark, event.clientX, event.clientY); else tip.hidden = true;
});
document.addEventListener("focusin", (event) => {
  const mark = marked(event);
  if (!mark) { tip.hidden = true; return; }
  const box = mark.getBoundingClientRect();
  showTip(mark, box.left, box.bottom - 12);
});
document.addEventListener("focusout", () => { tip.hidden = true; });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

// Of the marks along a line the tab key reaches one; arrow keys go from each to the next.
const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
document.addEventListener("keydown", (event) => {
  const line = event.key in steps && event.target.closest && event.target.closest(".along");
  if (!line) return;
  const marks = [...line.querySelectorAll("[data-tip]")], here = marks.indexOf(event.target);
  const next = marks[here + steps[event.key]];
  if (!next) return;
  event.preventDefault();
  event.target.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
});

// The table of runs: sorted by a press on a column's head, filtered by words and by conditions such as tp=8 or ttft_s<0.5.
const runs = document.getElementById("runs");
if (runs) {
  const table = runs.querySelector("table"), body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const names = heads.map((head) => head.dataset.name);
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
  };
  const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = [...body.rows].map((row) => [value(row, column), row]);
      const [empty, full] = [keyed.filter(([key]) => key === ""), keyed.filter(([key]) => key !== "")];
      full.sort(([a], [b]) => (down ? compare(b, a) : compare(a, b)));
      body.append(...full.concat(empty).map(([, row]) => row));
    });
  });

  const operators = {
    "=": (a, b) => a === b, "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b,
  };
  function condition(word) {
    const parts = word.match(/^([^<>=]+)(<=|>=|=|<|>)(.+)$/), column = parts ? names.indexOf(parts[1]) : -1;
    if (column < 0) return (row) => row.textContent.toLowerCase().includes(word.toLowerCase());
    const wanted = Number.isNaN(Number(parts[3])) ? parts[3] : Number(parts[3]);
    return (row) => {
      const own = value(row, column);
      return typeof own === typeof wanted && operators[parts[2]](own, wanted);
    };
  }
  const box = document.getElementById("filter"), count = document.getElementById("count"), all = body.rows.length;
  function filter() {
    const conditions = box.value.split(/\s+/).filter(Boolean).map(condition);
    const left = new Set();
    for (const row of body.rows) {
      row.hidden = !conditions.every((holds) => holds(row));
      if (!row.hidden) left.add(row.dataset.run);
    }
    document.querySelectorAll(".mark").forEach((mark) => mark.classList.toggle("dim", !left.has(mark.dataset.run)));
    document.querySelectorAll(".line[data-runs]").forEach((line) =>
      line.classList.toggle("dim", !line.dataset.runs.split(" ").some((run) => left.has(run))));
    count.textContent = `${left.size} of ${all} runs`;
  }
  box.addEventListener("input", filter);
  filter();  // the browser may have kept what was typed before
  const every = document.getElementById("every");
  const columns = () => runs.classList.toggle("every", every.checked);
  every.addEventListener("change", columns);
  columns();
  runs.querySelector(".controls").hidden = false;

  // A mark leads to its row, also when a filter hides it.
  document.addEventListener("click", (event) => {
    const mark = event.target.closest && event.target.closest("a.mark");
    if (!mark) return;
    const row = document.getElementById("run-" + mark.dataset.run);
    if (!row) return;
    if (row.hidden) { box.value = ""; filter(); }
    body.querySelectorAll(".chosen").forEach((other) => other.classList.remove("chosen"));
    row.classList.add("chosen");
    row.tabIndex = -1;
    row.focus({ preventScroll: true });
  });
}
