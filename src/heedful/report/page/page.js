"use strict";
{
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const options = { mode: "vega-lite", actions: false, renderer: "svg", ast: true, tooltip: { theme: "page" } };
  const drawn = [...document.querySelectorAll("[data-chart]")].map((place) => {
    const choices = document.createElement("div");
    choices.className = "choices";
    place.before(choices);
    return vegaEmbed(place, specs[place.dataset.chart], { ...options, bind: choices });
  });
  Promise.all(drawn).then(() => document.documentElement.classList.add("drawn"));
  for (const place of document.querySelectorAll(".choice")) {
    const figures = place.querySelectorAll("figure");
    place.querySelector("select").addEventListener("change", (event) => {
      figures.forEach((figure, i) => figure.classList.toggle("shown", i === event.target.selectedIndex));
    });
  }
  for (const button of navigator.clipboard ? document.querySelectorAll("[data-copy]") : []) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const done = () => (button.textContent = "Copied");
      navigator.clipboard.writeText(button.previousElementSibling.textContent).then(done, () => (button.hidden = true));
    });
  }
}
