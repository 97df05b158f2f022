// The console without a framework: keys, the palette, the menu on phones, the theme. Everything else is links and forms.
"use strict";

const isTyping = (event) => event.composedPath().some((each) => each.matches?.("input, textarea, select, [contenteditable]"));

// The theme: one press shows the other one, and the browser keeps it.
function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("bpc-theme", root.dataset.theme);
}

// The palette: `/` or Ctrl-K opens it, arrows walk through it, Enter follows.
const palette = document.getElementById("palette");

function openPalette() {
  if (!palette || palette.open) return;
  palette.showModal();
  const input = palette.querySelector("input");
  input.select();
  input.focus();
}

function walkPalette(event) {
  const links = [...palette.querySelectorAll(".palette-results a:not([hidden])")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)].focus();
  else if (event.key === "ArrowUp" && at > 0) links[at - 1].focus();
  else if (event.key === "ArrowUp") palette.querySelector("input").focus();
  else if (event.key === "Enter" && at < 0) links[0].click();
  else return;
  event.preventDefault();
}

// `g` and then the letter of a section goes there.
let lastKey = "";

function goBySection(event) {
  if (lastKey === "g") {
    const entry = document.querySelector(`.menu a[data-key="${CSS.escape(event.key)}"]`);
    if (entry) entry.click();
  }
  lastKey = event.key;
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
  } else if (palette && palette.open) walkPalette(event);
  else if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  else if (event.key === "/") {
    event.preventDefault();
    openPalette();
  } else goBySection(event);
});

document.addEventListener("click", (event) => {
  const target = event.target;
  if (target.closest("[data-theme-switch]")) switchTheme();
  if (target.closest("[data-opens-dialog]")) openPalette();
  if (target === palette) palette.close();
  const opener = target.closest("[data-opens]");
  if (opener) {
    const isOpen = document.getElementById(opener.dataset.opens).classList.toggle("is-open");
    opener.setAttribute("aria-expanded", String(isOpen));
  }
});

// A select or checkbox with data-submits sends its form at once; one with data-chooses-all marks all of its form.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-chooses-all]")) {
    const others = event.target.form.querySelectorAll('input[type="checkbox"]:not([disabled], [data-chooses-all])');
    for (const other of others) other.checked = event.target.checked;
  }
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});

// A sign-in link carries its secret behind `#`, which no server and no log sees. It goes into the form and out of the address.
const signIn = document.querySelector("form[data-sign-in]");
if (signIn && location.hash.startsWith("#bpclink_")) {
  signIn.elements.link.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  signIn.querySelector("button").focus();
}
