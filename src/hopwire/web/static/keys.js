// The little script there is: keys, brushing the chart, and bytes that light up with their field. Pages work without it.
"use strict";
(() => {
  let at = null;  // the row that was chosen; rows may come and go
  const go = (by) => {
    const rows = [...document.querySelectorAll("[data-row], svg a.step")];
    if (!rows.length) return;
    const place = rows.indexOf(at);
    at?.classList.remove("at");
    const first = rows.findIndex((row) => row.getBoundingClientRect().bottom > 0);
    at = rows[Math.max(0, Math.min(rows.length - 1, place < 0 ? first : place + by))];
    at.classList.add("at");
    at.scrollIntoView({ block: "nearest" });
  };
  const open = () => location.assign((at.matches("a") ? at : at.querySelector("a")).getAttribute("href"));
  const follow = (name) => document.querySelector(`[data-key="${name}"]`)?.click();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const does = {
      j: () => go(1), k: () => go(-1),
      Enter: open,
      "[": () => follow("previous"), "]": () => follow("next"),
      "/": () => document.querySelector("[data-search]")?.focus(),
      "?": () => { const keys = document.querySelector(".keys"); keys?.scrollIntoView(); keys?.classList.toggle("lit"); },
      o: () => follow("overview"), f: () => follow("flows"), u: () => follow("up"),
      n: () => follow("wrong"),
    }[event.key];
    if (!does || (event.key === "Enter" && !at?.isConnected)) return;
    event.preventDefault();
    does();
  });

  for (const chart of document.querySelectorAll("svg.chart")) {
    const first = BigInt(chart.dataset.first), width = BigInt(chart.dataset.width);
    const left = Number(chart.dataset.left), step = Number(chart.dataset.step), count = Number(chart.dataset.count);
    const bucket = (event) => {
      const box = chart.getBoundingClientRect();
      const x = (event.clientX - box.left) * chart.viewBox.baseVal.width / box.width;
      return Math.max(0, Math.min(count - 1, Math.floor((x - left) / step)));
    };
    let begin = null, mark = null, moved = false;
    chart.addEventListener("pointerdown", (event) => { begin = bucket(event); moved = false; });
    chart.addEventListener("dragstart", (event) => event.preventDefault());
    chart.addEventListener("pointermove", (event) => {
      if (begin === null) return;
      const here = bucket(event);
      if (here !== begin) moved = true;
      if (!moved) return;
      mark ??= chart.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
      mark.setAttribute("class", "brush");
      mark.setAttribute("x", left + Math.min(begin, here) * step);
      mark.setAttribute("width", (Math.abs(here - begin) + 1) * step);
      mark.setAttribute("y", 0); mark.setAttribute("height", chart.viewBox.baseVal.height);
    });
    chart.addEventListener("click", (event) => { if (moved) { event.preventDefault(); event.stopPropagation(); } }, true);
    window.addEventListener("pointerup", (event) => {
      if (begin === null) return;
      const from = begin, to = bucket(event);
      begin = null;
      if (!moved) return;
      const query = new URLSearchParams(location.search);
      query.set("since", String(first + BigInt(Math.min(from, to)) * width));
      query.set("until", String(first + BigInt(Math.max(from, to) + 1) * width));
      query.delete("page");
      location.search = query.toString();
    });
  }

  const light = (field, on) => {
    for (const each of document.querySelectorAll(`[data-field="${field}"]`)) each.classList.toggle("lit", on);
  };
  for (const each of document.querySelectorAll("[data-field]")) {
    each.addEventListener("mouseenter", () => light(each.dataset.field, true));
    each.addEventListener("mouseleave", () => light(each.dataset.field, false));
  }
  const newer = document.getElementById("newer"), version = document.querySelector("main").dataset.version;
  if (newer) setInterval(async () => {
    if (document.hidden) return;
    try {
      const answer = await (await fetch("/version.json")).json();
      newer.hidden = String(answer.newest) === version;
    } catch { /* the page is gone for a moment */ }
  }, 5000);

  for (const form of document.querySelectorAll("form"))
    form.addEventListener("submit", () => {
      for (const each of form.elements) if (each.name && !each.value) each.disabled = true;
      document.querySelector("[data-searching]")?.removeAttribute("hidden");
    });
})();
