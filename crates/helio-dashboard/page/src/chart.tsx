// Lines over time, or over steps.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Series {
  label: string;
  values: (number | null)[];
}

/** A place on the horizontal axis where something happened, such as a restart. */
export interface Mark {
  at: number;
  bad: boolean;
}

interface Props {
  label: string;
  /** In order; moments in seconds since the epoch, or where `isMoment` is false numbers. */
  times: number[];
  series: Series[];
  isMoment?: boolean;
  /** What the horizontal axis shows, for whoever points at the lines. */
  across?: string;
  /** Whether 0 to 1 is always seen. */
  fromZero?: boolean;
  marks?: Mark[];
}

const COLOURS = ["--line-1", "--line-3", "--line-2"];
const HEIGHT = 160;

/** A colour as a canvas takes it: what `light-dark()` chooses is known of an element's colour alone. */
function colour(near: HTMLElement, name: string): string {
  const probe = near.appendChild(document.createElement("span"));
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** A number of an axis in few characters. */
function short(value: number): string {
  const size = Math.abs(value);
  return size !== 0 && (size >= 1e5 || size < 1e-3) ? value.toExponential(1).replace("e+", "e") : String(Number(value.toPrecision(4)));
}

/** Dashed lines from top to bottom. */
function drawMarks(plot: uPlot, marks: Mark[], good: string, bad: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.setLineDash([4, 4]);
  ctx.lineWidth = devicePixelRatio;
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(mark.at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = mark.bad ? bad : good;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

export function Chart({ label, times, series, isMoment = true, across, fromZero = true, marks = [] }: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marked = useRef(marks);
  marked.current = marks;
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData;
  const labels = series.map((one) => one.label);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const axis = { stroke: colour(element, "--dim"), grid: { stroke: colour(element, "--rule") } };
    const [good, bad] = [colour(element, "--good"), colour(element, "--bad")];
    const range = (_: uPlot, low: number, high: number): uPlot.Range.MinMax => [Math.min(0, low), Math.max(1, high)];
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        scales: { x: { time: isMoment }, y: fromZero ? { range } : {} },
        axes: [axis, { ...axis, size: 62, values: (_, values) => values.map(short) }],
        series: [
          across === undefined ? {} : { label: across },
          ...labels.map((name, at) => ({
            label: name,
            width: 2,
            spanGaps: !isMoment,
            stroke: colour(element, COLOURS[at % COLOURS.length]!),
          })),
        ],
        hooks: { draw: [(drawn) => drawMarks(drawn, marked.current, good, bad)] },
      },
      data,
      element,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [labels.join(), isMoment, across]);
  useEffect(() => {
    plot.current?.setData(data);
  });
  return <div class="chart" ref={place} role="img" aria-label={label} />;
}
