// Nodes by how much of them is used: tiles with names, or of many squares on a canvas.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { hostOf, useOf } from "./machines";
import type { Machine } from "./answers";

const TILES_MAX = 24;
// Squares are as large as so many pixels allow, and never smaller than three.
const HEIGHT = 240;
/** Whether nodes are squares, of which each row takes more room than tiles. */
export const isMany = (machines: Machine[]): boolean => machines.length > TILES_MAX;
const RESOURCES: [string, string][] = [
  ["CPU", "CPUs"],
  ["GPU", "GPUs"],
  ["object_store_memory", "Object store"],
];

/** The colour of a node, light and dark: the more of it is used, the further from the ground. */
function shade(part: number): [light: string, dark: string] {
  const of = (light: number) => `hsl(219 ${30 + 45 * part}% ${light}%)`;
  return [of(92 - 50 * part), of(22 + 46 * part)];
}

const GONE: [string, string] = ["#cc3a30", "#ff7a6e"];

function Swatch({ of, children }: { of: [string, string]; children: string }): JSX.Element {
  return (
    <span>
      <i style={{ background: `light-dark(${of[0]}, ${of[1]})` }} />
      {children}
    </span>
  );
}

function partOf(machine: Machine, resource: string): number {
  const use = useOf(machine, resource);
  return use ? Math.min(1, Math.max(0, use.used / use.all)) : 0;
}

export function Heat({ machines }: { machines: Machine[] }): JSX.Element {
  const [resource, setResource] = useState("CPU");
  const known = RESOURCES.filter(([name]) => machines.some((machine) => useOf(machine, name)));
  return (
    <>
      <p class="filters">
        {known.map(([name, title]) => (
          <button aria-pressed={resource === name} onClick={() => setResource(name)}>
            {title}
          </button>
        ))}
      </p>
      {isMany(machines) ? <Squares machines={machines} resource={resource} /> : <Tiles machines={machines} resource={resource} />}
    </>
  );
}

function Tiles({ machines, resource }: { machines: Machine[]; resource: string }): JSX.Element {
  return (
    <div class="heat">
      {machines.map((machine) => {
        const isAlive = machine.raylet.state === "ALIVE";
        const part = partOf(machine, resource);
        return (
          <a href={`#/nodes/${machine.raylet.nodeId}`} class={isAlive ? "" : "gone"} style={{ "--part": isAlive ? part : 0 } as JSX.CSSProperties}>
            <b>{hostOf(machine)}</b>
            <small>{isAlive ? `${Math.round(100 * part)} %, ${machine.workers} workers` : machine.raylet.state}</small>
          </a>
        );
      })}
    </div>
  );
}

function Squares({ machines, resource }: { machines: Machine[]; resource: string }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<Machine | null>(null);
  // The square that keys have chosen.
  const [chosen, setChosen] = useState<number | null>(null);
  const [width, setWidth] = useState(300);
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(canvas.current!.clientWidth));
    watch.observe(canvas.current!);
    return () => watch.disconnect();
  }, []);
  const size = Math.min(18, Math.max(3, Math.floor(Math.sqrt((width * HEIGHT) / machines.length))));
  const gap = size > 4 ? 1 : 0;
  const columns = Math.max(1, Math.floor(width / size));
  const rows = Math.ceil(machines.length / columns);
  useEffect(() => {
    const element = canvas.current!;
    const scale = devicePixelRatio || 1;
    element.width = element.clientWidth * scale;
    element.height = rows * size * scale;
    const context = element.getContext("2d")!;
    context.scale(scale, scale);
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    machines.forEach((machine, at) => {
      const isAlive = machine.raylet.state === "ALIVE";
      const [light, dark] = isAlive ? shade(partOf(machine, resource)) : GONE;
      context.fillStyle = isDark ? dark : light;
      context.fillRect((at % columns) * size, Math.floor(at / columns) * size, size - gap, size - gap);
    });
    if (chosen !== null) {
      context.strokeStyle = isDark ? "#fff" : "#000";
      context.lineWidth = 2;
      context.strokeRect((chosen % columns) * size + 1, Math.floor(chosen / columns) * size + 1, size - gap - 2, size - gap - 2);
    }
  });
  const at = (event: MouseEvent): Machine | null => {
    const box = canvas.current!.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / size);
    return column < columns ? (machines[Math.floor((event.clientY - box.top) / size) * columns + column] ?? null) : null;
  };
  const open = (machine: Machine) => location.assign(`#/nodes/${machine.raylet.nodeId}`);
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      const next = chosen === null ? 0 : Math.min(machines.length - 1, Math.max(0, chosen + step));
      setChosen(next);
      setPointed(machines[next] ?? null);
    } else if (event.key === "Enter" && pointed) {
      open(pointed);
    }
  };
  const gone = machines.filter((machine) => machine.raylet.state !== "ALIVE").length;
  return (
    <div class="lanes">
      <canvas
        ref={canvas}
        style={{ height: `${rows * size}px` }}
        role="application"
        tabIndex={0}
        aria-label={`${machines.length} nodes, ${gone} of them dead, by use of ${resource}. Arrow keys choose one, Enter opens it.`}
        onKeyDown={onKey}
        onBlur={() => {
          setChosen(null);
          setPointed(null);
        }}
        onMouseMove={(event) => setPointed(at(event))}
        onMouseLeave={() => setPointed(null)}
        onClick={(event) => {
          const found = at(event);
          if (found) open(found);
        }}
      />
      <p class="legend" role="status">
        {pointed ? (
          <span>{`${hostOf(pointed)}: ${pointed.raylet.state === "ALIVE" ? `${Math.round(100 * partOf(pointed, resource))} %, ${pointed.workers} workers` : pointed.raylet.state}`}</span>
        ) : (
          <>
            <Swatch of={shade(0)}>idle</Swatch>
            <Swatch of={shade(0.5)}>50 %</Swatch>
            <Swatch of={shade(1)}>100 %</Swatch>
            {gone > 0 && <Swatch of={GONE}>dead</Swatch>}
          </>
        )}
      </p>
    </div>
  );
}
