// Lines over time, or over steps.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes } from "./show";

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
  /** Whether values are amounts of bytes. */
  isBytes?: boolean;
  /** Whether values are numbers of things, which have no halves. */
  isCount?: boolean;
  /** Whether a value holds until the next one. */
  isStepped?: boolean;
}

const COLOURS = ["--line-1", "--line-3", "--line-2", "--line-4", "--line-5", "--line-6", "--line-7", "--line-8"];
const HEIGHT = 160;

/** A colour as a canvas takes it: what `light-dark()` chooses is known of an element's colour alone. */
function colour(near: HTMLElement, name: string): string {
  const probe = near.appendChild(document.createElement("span"));
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Whether the page is dark, which may change while it is open: what is drawn keeps its colours. */
function useIsDark(): boolean {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setIsDark] = useState(dark.matches);
  useEffect(() => {
    const changed = () => setIsDark(dark.matches);
    dark.addEventListener("change", changed);
    return () => dark.removeEventListener("change", changed);
  }, []);
  return isDark;
}

const LARGE = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

/** A number in few characters. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e5 && size < 1e15) return LARGE.format(value);
  return size !== 0 && (size >= 1e15 || size < 1e-3) ? value.toExponential(1).replace("e+", "e") : String(Number(value.toPrecision(4)));
}

/** Time since a start, in the unit of the distance between two marks. */
function elapsed(seconds: number[], step: number): string[] {
  const [unit, name] = step >= 3600 ? [3600, "h"] : step >= 60 ? [60, "min"] : [1, "s"];
  return seconds.map((at) => `${Number((at / unit).toFixed(3))} ${name}`);
}

// Moments are shown to the second, and no closer than that.
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400, 604_800];
const ELAPSED = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, ...SECONDS];
// Amounts of bytes are shown in round units.
const BYTES = Array.from({ length: 50 }, (_, power) => 2 ** power);
const COUNTS = Array.from({ length: 30 }, (_, at) => [1, 2, 5][at % 3]! * 10 ** Math.floor(at / 3));
// Less than half a minute of moments is no past.
const MOMENTS_MIN = 30;

function clock(_: uPlot, moments: number[], __: number, ___: number, step: number): string[] {
  const day = { month: "short", day: "numeric" } as const;
  const time: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (step < 60) time.second = "2-digit";
  return moments.map((at) => (step >= 86_400 ? new Date(1000 * at).toLocaleDateString([], day) : new Date(1000 * at).toLocaleTimeString([], time)));
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

export function Chart({ label, times, series, isMoment = true, across, fromZero = true, marks = [], isBytes = false, isCount = false, isStepped = false }: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const isDark = useIsDark();
  const marked = useRef(marks);
  marked.current = marks;
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData;
  const labels = series.map((one) => one.label);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const axis = { size: 28, stroke: colour(element, "--dim"), grid: { stroke: colour(element, "--rule"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const isElapsed = across?.startsWith("second");
    const [good, bad] = [colour(element, "--good"), colour(element, "--bad")];
    const range = (_: uPlot, low: number, high: number): uPlot.Range.MinMax => [Math.min(0, low), Math.max(1, low + 1.05 * (high - low))];
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        legend: { show: labels.length > 1, live: labels.length < 5, markers: { width: 0, fill: (_, at) => colour(element, COLOURS[(at - 1) % COLOURS.length]!) } },
        scales: { x: { time: isMoment, range: isMoment ? (_, low, high) => [Math.min(low, high - MOMENTS_MIN), high] : undefined }, y: fromZero ? { range } : {} },
        axes: [isMoment ? { ...axis, space: 70, incrs: SECONDS, values: clock } : { ...axis, incrs: isElapsed ? ELAPSED : undefined, values: (_, values, __, ___, step) => (isElapsed ? elapsed(values, step) : values.map(short)) }, { ...axis, incrs: isBytes ? BYTES : isCount ? COUNTS : undefined, size: isBytes ? 64 : 48, values: (_, values) => values.map(isBytes ? bytes : short) }],
        series: [
          across === undefined ? {} : { label: across },
          ...labels.map((name, at) => ({
            label: name,
            width: 1.8,
            points: { show: false },
            spanGaps: !isMoment,
            paths: isStepped ? uPlot.paths.stepped!({ align: 1 }) : undefined,
            value: (_: uPlot, value: number | null) => (value === null ? "" : isBytes ? bytes(value) : short(value)),
            stroke: colour(element, COLOURS[at % COLOURS.length]!),
          })),
        ],
        hooks: {
          draw: [(drawn) => drawMarks(drawn, marked.current, good, bad)],
          // Where nobody points there are no values to tell.
          setLegend: [(told) => told.root.classList.toggle("pointed", told.legend.idx != null)],
        },
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
  }, [labels.join(), isMoment, across, isDark]);
  useEffect(() => {
    plot.current?.setData(data);
  });
  return <div class="chart" ref={place} role="img" aria-label={label} />;
}
