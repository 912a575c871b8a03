// How values look: states, amounts, times, ids.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

const GOOD = new Set(["ALIVE", "SUCCEEDED", "FINISHED", "CREATED", "HEALTHY", "TERMINATED"]);
const RUNS = new Set(["RUNNING"]);
const BAD = new Set(["DEAD", "FAILED", "ERROR", "UNHEALTHY", "DEPLOY_FAILED", "DIED"]);

// States that would not fit; the whole word is in the title, and in filters.
const SHORT: Record<string, string> = {
  PENDING_ARGS_AVAIL: "PENDING ARGS",
  PENDING_NODE_ASSIGNMENT: "PENDING NODE",
  PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY: "PENDING ACTOR",
  PENDING_CREATION: "PENDING",
  DEPENDENCIES_UNREADY: "PENDING ARGS",
};

const OVER = new Set(["ENDED", "REMOVED", "STOPPED", "LEFT", "DRIVER ENDED"]);

export function kindOf(state: string): string {
  return OVER.has(state) ? "dim" : GOOD.has(state) ? "good" : RUNS.has(state) ? "runs" : BAD.has(state) ? "bad" : "other";
}

/** A state in a word and a colour: the word says it all. */
export function State({ of }: { of: string }): JSX.Element {
  return (
    <span class={`state ${kindOf(of)}`} title={of in SHORT ? of : undefined}>
      {SHORT[of] ?? of}
    </span>
  );
}

export function bytes(amount: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (amount >= 1024 && at < units.length - 1) {
    amount /= 1024;
    at += 1;
  }
  return `${amount >= 100 || at === 0 ? Math.round(amount) : amount.toFixed(1)} ${units[at]}`;
}

export function count(amount: number): string {
  return Math.round(amount).toLocaleString("en-US");
}

/** So many of something. */
export function many(amount: number, one: string): string {
  return `${count(amount)} ${one}${amount === 1 ? "" : "s"}`;
}

/** A resource's name for people. */
export function resourceName(name: string): string {
  if (name === "CPU" || name === "GPU") return `${name}s`;
  const plain = name === "object_store_memory" ? "object store" : name.replaceAll("_", " ");
  return plain[0]!.toUpperCase() + plain.slice(1);
}

export function amount(name: string, value: number): string {
  return /memory/.test(name) ? bytes(value) : String(Math.round(value * 100) / 100);
}

export function duration(ms: number): string {
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  const besides = (rest: number, unit: string) => (rest > 0 ? ` ${rest} ${unit}` : "");
  if (minutes < 60) return `${minutes} min${besides(Math.floor(seconds % 60), "s")}`;
  return `${Math.floor(minutes / 60)} h${besides(minutes % 60, "min")}`;
}

/** Where an id begins that ids of other things do not share: those of an actor's first call and of its handles begin all alike. */
function shortId(id: string): string {
  return id.replace(/^(?:f{16}|0{16})(?=[0-9a-f]{16})/, "").slice(0, 10);
}

/** A text with the beginnings of its ids, as lists show them. */
export function withShortIds(text: string): string {
  return text.replace(/[0-9a-f]{24,}/g, (id) => `${shortId(id)}…`);
}

/** A reason as a sentence of its own. */
export function sentence(text: string | null | undefined): string {
  return text ? text[0]!.toUpperCase() + text.slice(1) : "";
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function date(ms: number): string {
  return new Date(ms).toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" });
}

/** The time of day, and of another day than today that, too. */
export function moment(ms: number | null | undefined): string {
  if (!ms) return "";
  const at = new Date(ms);
  const time = clock(ms);
  return at.toDateString() === new Date().toDateString() ? time : `${date(ms)} ${time}`;
}

async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without encryption a browser has no clipboard but this one.
  const area = document.body.appendChild(document.createElement("textarea"));
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
}

export type Thing = "nodes" | "actors" | "tasks" | "workers" | "jobs" | "placement_groups";

/** The beginning of an id, or the whole; it leads to the page of what it names, and can be copied. */
export function Id({ of, to, whole }: { of: string | null | undefined; to?: Thing; whole?: boolean }): JSX.Element | null {
  const [copied, setCopied] = useState(false);
  if (!of) return null;
  const shown = <code title={of}>{whole ? of : shortId(of)}</code>;
  const take = async () => {
    await copy(of);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <span class="id">
      {to ? <a href={`#/${to}/${encodeURIComponent(of)}`}>{shown}</a> : shown}
      <button type="button" onClick={take} aria-label={copied ? "Copied" : `Copy ${shortId(of)}`} title={copied ? "Copied" : "Copy"}>
        <svg viewBox="0 0 12 12" aria-hidden="true">
          {copied ? <path d="M2 6.5 4.8 9.5 10 3" /> : <path d="M4 4V1.5h6.5V8H8M1.5 4H8v6.5H1.5Z" />}
        </svg>
      </button>
    </span>
  );
}

/** A part of the whole as a line, with what is said of it; `warns`: all of it is too much. */
export function Bar({ part, label, warns, children }: { part: number; label: string; warns?: boolean; children?: ComponentChildren }): JSX.Element {
  const percent = Math.round(100 * Math.min(1, Math.max(0, part)));
  return (
    <span class={`bar${warns && percent >= 95 ? " full" : ""}`}>
      <i role="meter" aria-label={label} aria-valuenow={percent} aria-valuemin={0} aria-valuemax={100}>
        <b style={{ width: `${percent}%` }} />
      </i>
      {children}
    </span>
  );
}

/** Used of all, as a bar and in numbers. */
export function Use({ name, used, all }: { name: string; used: number; all: number }): JSX.Element {
  return (
    <Bar part={all > 0 ? used / all : 0} label={name} warns>
      {amount(name, used)} / {amount(name, all)}
    </Bar>
  );
}

/** The width of an element in pixels, which drawings take so that their text stays as large as other text. */
export function useWidth(first: number): [(of: HTMLElement | null) => void, number] {
  const [element, setElement] = useState<HTMLElement | null>(null);
  const [width, setWidth] = useState(first);
  useEffect(() => {
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, [element]);
  return [setElement, width];
}

/** A page that has nothing to show. */
export function Absent({ title, text }: { title: string; text: string }): JSX.Element {
  return (
    <>
      <h1>{title}</h1>
      <p class="empty">{text}</p>
    </>
  );
}

export function Problem({ text }: { text: string | undefined }): JSX.Element | null {
  return text ? <p role="alert">{text}</p> : null;
}

export function Card({ title, more, children }: { title: string; more?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <section class="card">
      {more === undefined ? (
        <h2>{title}</h2>
      ) : (
        <header>
          <h2>{title}</h2>
          <span class="more">{more}</span>
        </header>
      )}
      {children}
    </section>
  );
}

/** Names and what they are of; what is empty is left out. */
export function Facts({ of }: { of: [string, ComponentChildren][] }): JSX.Element {
  const known = of.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  );
}

// Names up to this length stand in one line.
const NAME_MAX = 28;

/** A name in a list: in one line, or where it is long in as many as it takes. */
export function Name({ of, href }: { of: string; href?: string }): JSX.Element {
  const kind = of.length > NAME_MAX ? "name" : "whole";
  return href ? <a class={kind} href={href}>{of}</a> : <span class={kind}>{of}</span>;
}

/** Figures in a row: a name, a number, in which colour, and the part of the page where they come from. */
export function Figures({ of }: { of: [string, ComponentChildren, string?, string?][] }): JSX.Element {
  return (
    <dl class="figures">
      {of.map(([name, value, kind, part]) => (
        <div>
          <dt>{part === undefined ? name : <a href={`#/${part}`}>{name}</a>}</dt>
          <dd class={kind}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Where a page of one thing belongs. */
export function Crumbs({ part, title }: { part: string; title: string }): JSX.Element {
  return (
    <p class="crumbs">
      <a href={`#/${part}`}>{title}</a> /
    </p>
  );
}

export interface Column<Row> {
  title: string;
  of: (row: Row) => ComponentChildren;
  /** The column of the state API that it shows, where lists are of one value of it. */
  key?: string;
  /** On the right, to be compared from row to row. */
  number?: boolean;
  /** Whether these rows have anything for it; without it: always. */
  isKnown?: (rows: Row[]) => boolean;
}

/** Rows under their titles; `empty` is what is said when there are none. */
export function Table<Row>(props: {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  empty: ComponentChildren;
}): JSX.Element {
  if (props.rows.length === 0) return <p class="empty">{props.empty}</p>;
  const columns = props.columns.filter(({ isKnown }) => isKnown?.(props.rows) ?? true);
  const side = (column: Column<Row>) => (column.number ? "number" : undefined);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`${props.label}, may be wider than it is shown`}>
      {/* In a narrow window a row is a block: roles keep it a row for those who hear it. */}
      <table role="table" aria-label={props.label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th role="columnheader" scope="col" class={side(column)}>
                {column.title || <span class="skip">More</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {props.rows.map((row) => (
            <tr role="row">
              {columns.map((column) => (
                <td role="cell" class={side(column)} data-title={column.title}>
                  {column.of(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Rows of which only some are shown, and how to see the others. */
export function Cut<Row>({ rows, most, children }: { rows: Row[]; most: number; children: (shown: Row[]) => ComponentChildren }): JSX.Element {
  const [page, setPage] = useState(0);
  const pages = Math.max(1, Math.ceil(rows.length / most));
  const at = Math.min(page, pages - 1);
  return (
    <>
      {children(rows.slice(at * most, (at + 1) * most))}
      {pages > 1 && (
        <p class="pages">
          <button disabled={at === 0} onClick={() => setPage(at - 1)}>
            Previous
          </button>
          <button disabled={at === pages - 1} onClick={() => setPage(at + 1)}>
            Next
          </button>
          <span class="dim">
            {at + 1} of {pages}
          </span>
        </p>
      )}
    </>
  );
}
