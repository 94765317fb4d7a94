// Keeps the page of what is live new: events of the server, with a pause. Pieces of HTML come escaped from the server.
"use strict";
(() => {
  const state = document.getElementById("live-state"), nodes = document.getElementById("nodes");
  const tail = document.getElementById("tail"), pause = document.getElementById("pause");
  const told = document.getElementById("missed");
  let source = null, next = tail?.dataset.next, missed = 0;
  const say = (text) => { state.textContent = text; };
  const begin = () => {
    const query = new URLSearchParams(location.search);
    if (next !== undefined) query.set("after", next);
    source = new EventSource(`/live/events?${query}`);
    source.addEventListener("open", () => say("live"));
    source.addEventListener("error", () => say("the page does not answer; trying again"));
    source.addEventListener("refused", (event) => { say(JSON.parse(event.data).why); source.close(); });
    source.addEventListener("nodes", (event) => { if (nodes) nodes.innerHTML = JSON.parse(event.data).html; });
    source.addEventListener("messages", (event) => {
      const data = JSON.parse(event.data);
      next = data.next;
      missed += data.missed;
      tail?.insertAdjacentHTML("afterbegin", data.html);
      while (tail && tail.rows.length > Number(tail.dataset.limit)) tail.deleteRow(-1);
      if (missed && told) told.textContent = `${missed.toLocaleString("en")} more came than can be shown`;
    });
  };
  const end = () => { source?.close(); source = null; };
  pause?.removeAttribute("hidden");
  const turn = () => {
    if (source) { end(); say("paused"); pause.textContent = "go on"; }
    else { pause.textContent = "pause"; begin(); }
  };
  pause?.addEventListener("click", turn);
  document.addEventListener("keydown", (event) => {
    if (event.key === "p" && pause && !event.target.closest("input, textarea, select")) turn();
  });
  window.addEventListener("pagehide", end);
  begin();
})();
