// Light or dark, before the page is drawn. Without a choice, the system decides.
const chosenTheme = localStorage.getItem("bpc-theme");
if (chosenTheme) document.documentElement.dataset.theme = chosenTheme;
