"use strict";
// Keeps the tables of the overview current, without taking the focus from who walks through them by keyboard.
(() => {
  const live = document.getElementById("live");
  const tables = document.getElementById("tables");

  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());

  // Changes `here` into `next`, both made by the server from one template, element by element; what is alike stays.
  function become(here, next) {
    if (here.isEqualNode(next)) {
      return;
    }
    const there = [...next.children];
    const isAlike = here.tagName === next.tagName && here.id === next.id;
    if (!isAlike || !there.length || !here.children.length || hasText(here) || hasText(next)) {
      here.replaceWith(next);
      return;
    }
    const byId = new Map([...here.children].filter((child) => child.id).map((child) => [child.id, child]));
    const wanted = new Set(there.map((child) => child.id).filter(Boolean));
    let place = here.firstElementChild;
    for (const child of there) {
      while (place && place.id && !wanted.has(place.id)) {
        const gone = place;
        place = place.nextElementSibling;
        gone.remove();
      }
      const old = child.id ? byId.get(child.id) : place && !place.id ? place : null;
      if (!old) {
        here.insertBefore(child, place);
        continue;
      }
      if (old === place) {
        place = place.nextElementSibling;
      } else {
        here.insertBefore(old, place);
      }
      become(old, child);
    }
    while (place) {
      const gone = place;
      place = place.nextElementSibling;
      gone.remove();
    }
  }

  function show(html) {
    const next = tables.cloneNode(false);
    next.innerHTML = html; // rendered and escaped by the service
    const hadFocus = tables.contains(document.activeElement);
    become(tables, next);
    if (hadFocus && !tables.contains(document.activeElement)) {
      document.getElementById("held")?.focus(); // its row is gone
    }
  }

  let source = null;
  function start() {
    source = new EventSource(`${live.dataset.live}?_xsrf=${encodeURIComponent(live.dataset.xsrf)}`);
    source.onopen = () => (live.textContent = "Kept up to date.");
    source.onmessage = (event) => show(JSON.parse(event.data));
    source.onerror = () => {
      live.textContent =
        source.readyState === EventSource.CLOSED
          ? "Not kept up to date: reload the page."
          : "Not up to date: the service does not answer; trying again.";
    };
    source.addEventListener("end", () => {
      stop();
      live.textContent = "Not kept up to date any more: you were logged out.";
    });
  }
  function stop() {
    source?.close();
    source = null;
  }

  // A hidden page asks nothing.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : source || start()));
  if (!document.hidden) {
    start();
  }
})();
