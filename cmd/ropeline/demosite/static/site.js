// Keeps "seats left" up to date from the live feed, where a page shows it. Every page works without.
(() => {
  const live = document.currentScript.dataset.live;
  const left = document.querySelector("[data-left]");
  if (!left || !window.EventSource) return;
  const feed = new EventSource(live);
  feed.addEventListener("seats", (event) => {
    left.textContent = JSON.parse(event.data).left;
  });
  addEventListener("pagehide", () => feed.close());
})();
