// A line over the time since the page was opened.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Series {
  label: string;
  values: (number | null)[];
}

const COLOURS = ["--line-1", "--line-2", "--line-3"];

/** A colour as a canvas takes it: what `light-dark()` chooses is known of an element's colour alone. */
function colour(near: HTMLElement, name: string): string {
  const probe = near.appendChild(document.createElement("span"));
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function Chart({ times, series, label }: { times: number[]; series: Series[]; label: string }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const axis = { stroke: colour(element, "--dim"), grid: { stroke: colour(element, "--rule") } };
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: 160,
        scales: { y: { range: (_, low, high) => [Math.min(0, low), Math.max(1, high)] } },
        axes: [axis, { ...axis, size: 44 }],
        series: [
          {},
          ...series.map(({ label }, at) => ({
            label,
            width: 2,
            stroke: colour(element, COLOURS[at % COLOURS.length]!),
          })),
        ],
      },
      [times, ...series.map(({ values }) => values)] as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: 160 }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [series.map(({ label }) => label).join()]);
  useEffect(() => {
    plot.current?.setData([times, ...series.map(({ values }) => values)] as uPlot.AlignedData);
  });
  return <div class="chart" ref={place} role="img" aria-label={label} />;
}
