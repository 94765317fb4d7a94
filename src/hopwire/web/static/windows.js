// A flow of very many steps, window by window: the next window is fetched before its reader comes to the end of the
// shown ones. At most four windows are kept, and the address is that of the window in sight. Links do the same without it.
"use strict";
(() => {
  const place = document.querySelector("[data-windows]"), end = document.querySelector("[data-end]");
  if (!place || !end) return;
  const most = 4, pager = document.querySelector("[data-pager]");
  const pagers = new Map([[place.firstElementChild, pager?.innerHTML]]);
  let next = place.dataset.next, isBusy = false;
  const inSight = new IntersectionObserver((seen) => {
    for (const each of seen) {
      if (!each.isIntersecting || !pagers.has(each.target)) continue;
      pager.innerHTML = pagers.get(each.target);
      history.replaceState(null, "", each.target.dataset.address);
    }
  }, { rootMargin: "-45% 0px -45% 0px" });
  const fetchNext = async () => {
    if (isBusy || !next) return;
    isBusy = true;
    end.textContent = "Fetching the next steps ...";
    try {
      const page = new DOMParser().parseFromString(await (await fetch(next)).text(), "text/html");
      const found = page.querySelector("[data-windows]"), part = found.firstElementChild;
      pagers.set(part, page.querySelector("[data-pager]").innerHTML);
      place.append(part);
      inSight.observe(part);
      next = found.dataset.next;
      while (place.children.length > most) {
        pagers.delete(place.firstElementChild);
        place.firstElementChild.remove();
      }
      end.textContent = next ? "" : "This was the last step.";
    } catch { next = ""; end.textContent = "The next steps could not be fetched: load the page again."; }
    isBusy = false;
    atEnd.unobserve(end);  // where windows are short the end may still be near: look again
    if (next) atEnd.observe(end);
  };
  const atEnd = new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) fetchNext(); },
    { rootMargin: "0px 0px 1500px 0px" });
  atEnd.observe(end);
  if (pager) inSight.observe(place.firstElementChild);
})();
