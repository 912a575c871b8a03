// What a worker is doing: its stacks now, or a flame graph of some seconds.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { StackAnswer } from "./answers";
import { json } from "./api";
import { Card, Problem, bytes, count } from "./show";

interface Frame {
  name: string;
  count: number;
  below: Map<string, Frame>;
}

const LANE = 18;
const WIDTH = 1200;

function tree(stacks: { frames: string[]; count: number }[], of: string): Frame {
  const root: Frame = { name: of, count: 0, below: new Map() };
  for (const { frames, count } of stacks) {
    let at = root;
    at.count += count;
    for (const name of frames) {
      const next: Frame = at.below.get(name) ?? { name, count: 0, below: new Map() };
      at.below.set(name, next);
      next.count += count;
      at = next;
    }
  }
  return root;
}

function depthOf(frame: Frame): number {
  return 1 + Math.max(0, ...[...frame.below.values()].map(depthOf));
}

/** From top to bottom, the wider the more often seen; a click makes a frame as wide as the whole. */
export function Flame({ stacks, of, note }: { stacks: { frames: string[]; count: number }[]; of: string; note: string }): JSX.Element {
  const [path, setPath] = useState<string[]>([]);
  let root = tree(stacks, of);
  for (const name of path) root = root.below.get(name) ?? root;
  const bars: JSX.Element[] = [];
  const draw = (frame: Frame, depth: number, x: number, at: string[]) => {
    const width = (frame.count / root.count) * WIDTH;
    if (width < 1) return;
    let hash = 0;
    for (const letter of frame.name) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
    const part = `${Math.round((100 * frame.count) / root.count)} %`;
    bars.push(
      <g
        role="button"
        tabIndex={0}
        aria-label={`${frame.name}, ${part}`}
        onClick={() => setPath(at)}
        onKeyDown={(event: KeyboardEvent) => event.key === "Enter" && setPath(at)}
      >
        <rect x={x} y={depth * LANE} width={width} height={LANE - 1} rx={2} fill={`hsl(${28 + (hash % 28)} ${70 + (hash % 20)}% ${66 + (hash % 12)}%)`}>
          <title>{`${frame.name}: ${frame.count} of ${root.count}, ${part}`}</title>
        </rect>
        {width > 40 && (
          <text x={x + 4} y={depth * LANE + 13}>
            {frame.name.slice(0, Math.floor(width / 6.7) - 1)}
          </text>
        )}
      </g>,
    );
    let next = x;
    for (const one of [...frame.below.values()].sort((a, b) => b.count - a.count)) {
      draw(one, depth + 1, next, [...at, one.name]);
      next += (one.count / root.count) * WIDTH;
    }
  };
  draw(root, 0, 0, path);
  return (
    <>
      <p class="filters">
        <button disabled={path.length === 0} onClick={() => setPath([])}>
          Reset zoom
        </button>
        <span class="dim">
          {note}
        </span>
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="The flame graph, may be wider than it is shown">
        <svg class="flame" viewBox={`0 0 ${WIDTH} ${depthOf(root) * LANE}`} style={{ minWidth: "700px" }} role="group" aria-label="Flame graph">
          {bars}
        </svg>
      </div>
    </>
  );
}

export function Stacks({ node, pid }: { node: string; pid: number }): JSX.Element {
  const [told, setTold] = useState<StackAnswer>();
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState("");
  const ask = async (seconds: number, memory = false) => {
    setBusy(seconds ? `Profiling for ${seconds} s …` : "Reading stacks …");
    setProblem(undefined);
    try {
      setTold(await json("/api/v0/stacks/{node}/{pid}", { node, pid, seconds, ...(memory ? { memory: 1 } : {}) }));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    setBusy("");
  };
  return (
    <Card title="Profiling">
      <p class="filters">
        <button disabled={busy !== ""} onClick={() => ask(0)}>
          Stack dump
        </button>
        {[5, 30].map((seconds) => (
          <button disabled={busy !== ""} onClick={() => ask(seconds)}>
            CPU profile, {seconds} s
          </button>
        ))}
        <button disabled={busy !== ""} onClick={() => ask(10, true)}>
          Memory profile, 10 s
        </button>
        <span class="dim" role="status">
          {busy}
        </span>
      </p>
      <Problem text={problem} />
      {told?.stacks && told.bytes !== undefined && (
        <Flame
          stacks={told.stacks}
          of="live allocations"
          note={`${bytes(told.bytes)} allocated by Python code ${told.is_new ? "in that time" : "since tracing began"} and still in use; the process has ${bytes(told.resident ?? 0)} in memory.`}
        />
      )}
      {told?.stacks && told.bytes === undefined && (
        <Flame stacks={told.stacks} of="all threads" note={`${count(told.looks ?? 0)} samples of wall time: a wider frame was on the stack more often, running or waiting.`} />
      )}
      {told?.text !== undefined && (
        <details open={!told.stacks}>
          <summary>Stacks of {told.title}</summary>
          <pre class="log" tabIndex={0} aria-label="Stacks">
            {told.text}
          </pre>
        </details>
      )}
    </Card>
  );
}
