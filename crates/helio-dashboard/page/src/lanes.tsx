// What runs when: a lane for each process, a bar for each call, on a canvas, for there are thousands.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Bar as Call } from "./answers";
import { AGE_MS, json, now, useAsked } from "./api";
import { useNameOf } from "./machines";
import { duration } from "./show";

/** What is known of calls, as far back as is asked for. */
export interface Known {
  calls: Call[];
  /** The head's clock less this machine's, in milliseconds. */
  ahead: number;
  /** Earlier calls are not among them. */
  isCut: boolean;
  /** The head has answered. */
  isTold: boolean;
  error: string | undefined;
}

// A call that ended while the last answer was on its way.
const OVERLAP_MS = 3000;
// As many calls as an answer has: at first, and in those that come several times a second.
const FIRST_MOST = 4000;
const LATER_MOST = 200;

/** Follows the calls of the last `pastMs`, of one job or (`""`) of all: the first answer has all, the others what is new. */
export function useCalls(pastMs: number, job = ""): Known {
  const kept = useRef({ of: "", calls: new Map<string, Call>(), now: 0, ahead: 0, isCut: false });
  const of = `${pastMs} ${job}`;
  const { error } = useAsked(
    async () => {
      if (kept.current.of !== of) kept.current = { of, calls: new Map(), now: 0, ahead: 0, isCut: false };
      const all = kept.current;
      const began = now();
      const since = all.now ? all.now - OVERLAP_MS : began + all.ahead - pastMs;
      const told = await json("/api/v0/tasks/activity", {
        age: AGE_MS,
        since: Math.max(0, Math.floor(since)),
        job_id: job,
        most: all.now ? LATER_MOST : FIRST_MOST,
      });
      all.ahead = told.now - now();
      // What ran and is no longer told of has ended unseen.
      const seen = new Set(told.bars.map((call) => `${call.task_id}.${call.attempt}`));
      for (const [key, call] of all.calls) {
        if ((call.end === 0 && !seen.has(key)) || (call.end > 0 && call.end < told.now - pastMs)) all.calls.delete(key);
      }
      for (const call of told.bars) all.calls.set(`${call.task_id}.${call.attempt}`, call);
      all.now = told.now;
      all.isCut = told.is_cut;
      return told.now;
    },
    1000,
    [of],
    ["tasks"],
  );
  const { calls, ahead, isCut, now: told } = kept.current;
  return { calls: [...calls.values()], ahead, isCut, isTold: told > 0, error };
}

const LANE = 14;
const GAP = 3;
const AXIS = 18;

const hues = new Map<string, number>();

/** A colour for each name, those that are seen one after the other far from each other; red is for failures. */
export function hueOf(name: string): number {
  const known = hues.get(name);
  if (known !== undefined) return known;
  const hue = 25 + 310 * ((0.6 + hues.size * 0.618034) % 1);
  hues.set(name, hue);
  return hue;
}

function tick(ms: number): number {
  const steps = [100, 250, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 1800e3, 3600e3];
  return steps.find((step) => ms / step <= 8) ?? 7200e3;
}

// Lanes change places no more often.
const SETTLED_MS = 10_000;

/** The lane of a call: its machine and its process, in the order of their numbers. */
function laneOf(call: Call): string {
  return `${call.node_id} ${String(call.pid).padStart(9)}`;
}

interface Props {
  label: string;
  known: Known;
  /** How much is seen, in milliseconds, and how far its end is in the past. */
  widthMs: number;
  agoMs?: number;
  lanesMax: number;
}

export function Lanes({ label, known, widthMs, agoMs = 0, lanesMax }: Props): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const places = useRef<{ call: Call; x: number; y: number; width: number }[]>([]);
  const [tip, setTip] = useState<{ x: number; y: number; call: Call } | null>(null);
  const nameOf = useNameOf();
  // Processes that did nothing in that time have no lane, and where there is not room for all those have one that worked last.
  const until = now() + known.ahead - agoMs;
  const seen = known.calls.filter((call) => call.start <= until && (call.end === 0 || call.end >= until - widthMs));
  const worked = new Map<string, number>();
  for (const call of seen) {
    const lane = laneOf(call);
    const at = Math.floor(Math.min(call.end || until, until) / SETTLED_MS);
    if (at > (worked.get(lane) ?? 0)) worked.set(lane, at);
  }
  const latestFirst = [...worked].sort(([a, aAt], [b, bAt]) => bAt - aAt || a.localeCompare(b));
  const lanes = new Map(latestFirst.slice(0, lanesMax).map(([lane]) => lane).sort().map((lane, at) => [lane, at] as const));
  const shown = Math.max(3, lanes.size);
  const isEmpty = known.isTold && seen.length === 0;
  const height = shown * (LANE + GAP) + AXIS;
  const latest = useRef({ known, lanes, widthMs, agoMs });
  latest.current = { known, lanes, widthMs, agoMs };

  useEffect(() => {
    const element = canvas.current!;
    let frame = 0;
    const draw = () => {
      const { known, lanes, widthMs, agoMs } = latest.current;
      const scale = devicePixelRatio || 1;
      const [width, tall] = [element.clientWidth, element.clientHeight];
      if (element.width !== Math.round(width * scale) || element.height !== Math.round(tall * scale)) {
        element.width = Math.round(width * scale);
        element.height = Math.round(tall * scale);
      }
      const context = element.getContext("2d")!;
      const style = getComputedStyle(element);
      const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
      const left = Math.min(110, width * 0.25);
      const moment = now() + known.ahead;
      const to = moment - agoMs;
      const from = to - widthMs;
      const x = (at: number) => left + ((at - from) / widthMs) * (width - left);
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, tall);
      context.font = "11px system-ui, sans-serif";
      context.textBaseline = "middle";
      const dim = style.getPropertyValue("color");
      const step = tick(widthMs * (600 / Math.max(240, width - left)));
      context.fillStyle = dim;
      context.strokeStyle = isDark ? "#2a313b" : "#e2e6ec";
      for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
        context.beginPath();
        context.moveTo(Math.round(x(at)) + 0.5, 0);
        context.lineTo(Math.round(x(at)) + 0.5, tall - AXIS);
        context.stroke();
        const text = new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
        const half = context.measureText(text).width / 2;
        if (x(at) - half >= left - 8 && x(at) + half <= width) context.fillText(text, x(at) - half, tall - AXIS / 2);
      }
      let named = "";
      for (const [lane, at] of lanes) {
        if (at * (LANE + GAP) + LANE > tall - AXIS) break;
        const [node, pid] = lane.split(/ +/);
        const host = nameOf(node);
        context.fillStyle = dim;
        const text = host === named ? String(pid) : `${host} ${pid}`;
        named = host;
        context.fillText(text.slice(-Math.floor(left / 6)), 0, at * (LANE + GAP) + LANE / 2 + 1);
      }
      places.current = [];
      for (const call of known.calls) {
        const end = call.end || moment;
        if (end < from || call.start > to) continue;
        const lane = lanes.get(laneOf(call));
        if (lane === undefined) continue;
        const y = lane * (LANE + GAP);
        if (y + LANE > tall - AXIS) continue;
        const begin = Math.max(left, x(call.start));
        const wide = Math.max(1.5, Math.min(width, x(end)) - begin);
        context.fillStyle =
          call.state === "FAILED" ? (isDark ? "#ff8f85" : "#c8372d") : `hsl(${hueOf(call.name)} ${isDark ? "52% 62%" : "58% 52%"})`;
        context.globalAlpha = call.end ? 0.85 : 1;
        context.fillRect(begin, y + 1, wide - (wide > 3 ? 0.5 : 0), LANE);
        places.current.push({ call, x: begin, y, width: wide });
      }
      context.globalAlpha = 1;
    };
    draw();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const timer = setInterval(() => (frame = requestAnimationFrame(draw)), still ? 1000 : 100);
    return () => {
      clearInterval(timer);
      cancelAnimationFrame(frame);
    };
  }, []);

  const at = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const found = places.current.filter((one) => y >= one.y && y <= one.y + LANE + GAP && x >= one.x - 2 && x <= one.x + one.width + 2).pop();
    return found ? { x: Math.min(x, box.width - 200), y: y + 16, call: found.call } : null;
  };
  const open = (call: Call) => location.assign(`#/tasks/${call.task_id}`);
  // Left and right go to the call before and after, up and down to the one of the process above and below.
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      const all = places.current;
      const here = tip && all.find(({ call }) => call.task_id === tip.call.task_id && call.attempt === tip.call.attempt);
      const inLane = (y: number) => all.filter((one) => one.y === y).sort((a, b) => a.x - b.x);
      let next = all[all.length - 1];
      if (here && step[0]) {
        const lane = inLane(here.y);
        next = lane[lane.indexOf(here) + step[0]] ?? here;
      } else if (here) {
        const lane = inLane(here.y + step[1]! * (LANE + GAP));
        next = lane.reduce((best, one) => (Math.abs(one.x - here.x) < Math.abs(best.x - here.x) ? one : best), lane[0] ?? here);
      }
      if (!next) return;
      event.preventDefault();
      event.stopPropagation();
      setTip({ x: Math.min(next.x, canvas.current!.clientWidth - 200), y: next.y + LANE + GAP, call: next.call });
    } else if (event.key === "Enter" && tip) {
      open(tip.call);
    } else if (event.key === "Escape") {
      setTip(null);
    }
  };
  const counts = new Map<string, number>();
  for (const { name } of seen) counts.set(name, (counts.get(name) ?? 0) + 1);
  const legend = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 6);
  return (
    <div class="lanes">
      <canvas
        ref={canvas}
        class="dim"
        style={{ height: `${height}px` }}
        role="application"
        tabIndex={0}
        aria-label={`${label}: ${seen.length} calls on ${worked.size} processes. Arrow keys go from call to call, Enter opens one.`}
        onKeyDown={onKey}
        onBlur={() => setTip(null)}
        onMouseMove={(event) => setTip(at(event))}
        onMouseLeave={() => setTip(null)}
        onClick={(event) => {
          const found = at(event);
          if (found) open(found.call);
        }}
      />
      {tip && (
        <div class="tip" role="status" style={{ left: `${Math.max(0, tip.x)}px`, top: `${tip.y}px` }}>
          {tip.call.name}, {tip.call.state.toLowerCase()}, {tip.call.end ? duration(tip.call.end - tip.call.start) : "running"}
          <br />
          {nameOf(tip.call.node_id)}, process {tip.call.pid}
        </div>
      )}
      <p class="legend">
        {isEmpty && <span>No task ran in this time.</span>}
        {legend.map(([name, many]) => (
          <span>
            <i style={{ background: `light-dark(hsl(${hueOf(name)} 58% 52%), hsl(${hueOf(name)} 52% 62%))` }} />
            {name} <b>{many}</b>
          </span>
        ))}
        {worked.size > lanes.size && <span>{worked.size - lanes.size} more processes not drawn.</span>}
        {known.isCut && <span>Earlier calls not drawn.</span>}
      </p>
    </div>
  );
}
