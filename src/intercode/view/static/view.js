// Keys, filters that apply at once, and updates while episodes are played. The pages work without this file.
"use strict";

const find = (selector) => document.querySelector(selector);
const keys = find("#keys");

// -- keys ---------------------------------------------------------------------------------------------------------------

const follow = (selector) => find(selector)?.click();

// The turns of an episode, else the rows of a list: j and k walk over them, and at the ends to the page after or before.
function step(forward) {
  const turns = [...document.querySelectorAll(".turn")];
  const places = turns.length ? turns : [...document.querySelectorAll("a.row")];
  const now = places.indexOf(document.activeElement.closest?.(".turn, a.row"));
  const next = now < 0 ? (forward ? start(places) : -1) : now + (forward ? 1 : -1);
  if (places[next]) {
    places[next].focus({ preventScroll: true });
    places[next].scrollIntoView({ block: turns.length ? "start" : "nearest" });
  } else if (now >= 0) {
    follow(forward ? "a[rel=later], a[rel=next-page]" : "a[rel=earlier], a[rel=prev-page]");
  }
}

// The turn in the address, else the first place.
function start(places) {
  const named = location.hash && document.getElementById(location.hash.slice(1));
  return Math.max(0, places.indexOf(named));
}

const actions = {
  j: () => step(true),
  k: () => step(false),
  n: () => follow("a[rel=next]"),
  p: () => follow("a[rel=prev]"),
  u: () => [...document.querySelectorAll(".top nav a")].at(find(".turn, #verdict") ? -1 : 0).click(),
  "/": () => find("input[type=search]")?.focus(),
  "?": () => keys.showModal(),
  Enter: () => {
    const folded = document.activeElement.classList.contains("turn") ? document.activeElement.querySelectorAll("details") : [];
    const open = [...folded].some((each) => !each.open);
    folded.forEach((each) => { each.open = open; });
  },
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea") || keys.open;
  if (event.ctrlKey || event.metaKey || event.altKey || typing || !(event.key in actions)) {
    if (event.key === "Escape") document.activeElement.blur();
    return;
  }
  if (event.key === "Enter" && event.target.matches("a, button, summary")) return;
  event.preventDefault();
  actions[event.key]();
});

find("#help").addEventListener("click", () => keys.showModal());
document.querySelectorAll(".filters select").forEach((select) => select.addEventListener("change", () => select.form.requestSubmit()));
document.querySelectorAll(".filters").forEach((form) => form.addEventListener("submit", () => {
  form.querySelectorAll("select, input").forEach((field) => { field.disabled = !field.value; }); // keeps the address short
}));
addEventListener("pageshow", () => document.querySelectorAll(".filters [disabled]").forEach((field) => { field.disabled = false; }));

// -- updates ------------------------------------------------------------------------------------------------------------

// What the server sent for each part, since a reader may have unfolded something in it.
const sent = new WeakMap();
const note = (part) => sent.set(part, part.outerHTML);

function renew(old, now) {
  if (sent.get(old) === now.outerHTML) return;
  if (old.dataset.each !== undefined) {
    const olds = new Map([...old.children].map((child) => [child.id, child]));
    for (const child of [...now.children]) {
      if (olds.has(child.id)) renew(olds.get(child.id), child);
      else { old.append(child); note(child); }
    }
    sent.set(old, now.outerHTML);
  } else if (!old.contains(document.activeElement)) {
    const chosen = new Set([...old.querySelectorAll("input:checked")].map((box) => box.value));
    const html = now.outerHTML;
    now.querySelectorAll("input[type=checkbox]").forEach((box) => { box.checked = chosen.has(box.value); });
    old.replaceWith(now);
    sent.set(now, html);
  }
}

document.querySelectorAll("[data-part], [data-each] > *").forEach(note);

// A change that comes while the page is fetched is fetched afterwards.
let busy = false;
let changed = false;
async function refresh() {
  changed = true;
  if (busy) return;
  busy = true;
  try {
    while (changed) {
      changed = false;
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      page.querySelectorAll("[data-part]").forEach((part) => { const old = document.getElementById(part.id); if (old) renew(old, part); });
      document.body.dataset.events = page.body.dataset.events; // none if the episode has ended
    }
  } catch { // the viewer has ended, or the reader has left the page
  } finally {
    busy = false;
    listen();
  }
}

// A browser keeps few connections to one server, so pages that nobody sees give theirs back.
let events = null;
function listen() {
  const address = document.hidden ? "" : document.body.dataset.events;
  if (!address) { events?.close(); events = null; }
  else if (!events) { events = new EventSource(address); events.onmessage = refresh; }
}

listen();
document.addEventListener("visibilitychange", () => { if (!document.hidden && document.body.dataset.events) refresh(); listen(); });
