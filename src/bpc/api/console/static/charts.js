// Curves of readings, drawn by uPlot in the colours of the page. The table below each one says the same.
"use strict";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function drawChart(element) {
  const [times, values] = JSON.parse(element.dataset.chart);
  element.replaceChildren();
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  new uPlot(
    {
      width: element.clientWidth,
      height: 180,
      cursor: { drag: { x: true, y: false } },
      legend: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      axes: [axis, { ...axis, size: 60 }],
      series: [{}, { stroke: colour("--accent"), width: 2, points: { show: times.length < 60, size: 5, fill: colour("--accent") } }],
    },
    [times, values],
    element,
  );
}

const drawCharts = () => document.querySelectorAll("[data-chart]").forEach(drawChart);
drawCharts();
addEventListener("resize", drawCharts);
new MutationObserver(drawCharts).observe(document.documentElement, { attributeFilter: ["data-theme"] });
