// How values look: states, amounts, times, ids.
import type { ComponentChildren, JSX } from "preact";

const GOOD = new Set(["ALIVE", "RUNNING", "SUCCEEDED", "FINISHED", "CREATED"]);
const BAD = new Set(["DEAD", "FAILED"]);

/** A state in a word and a colour: the word says it all. */
export function State({ of }: { of: string }): JSX.Element {
  const kind = GOOD.has(of) ? "good" : BAD.has(of) ? "bad" : "other";
  return <span class={`state ${kind}`}>{of}</span>;
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

export function amount(name: string, value: number): string {
  return /memory/.test(name) ? bytes(value) : String(Math.round(value * 100) / 100);
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function moment(ms: number | null | undefined): string {
  return ms ? new Date(ms).toLocaleString() : "";
}

/** The beginning of an id; the whole of it on hover and for copying. */
export function Id({ of }: { of: string | null | undefined }): JSX.Element {
  return of ? (
    <code title={of}>{of.slice(0, 10)}</code>
  ) : (
    <span />
  );
}

/** Used of all, as a bar and in numbers. */
export function Use({ name, used, all }: { name: string; used: number; all: number }): JSX.Element {
  const part = all > 0 ? Math.min(1, Math.max(0, used / all)) : 0;
  return (
    <span class="use">
      <meter min={0} max={1} value={part} aria-label={name} />
      <span>
        {amount(name, used)} / {amount(name, all)}
      </span>
    </span>
  );
}

export function Problem({ text }: { text: string | undefined }): JSX.Element | null {
  return text ? <p role="alert">{text}</p> : null;
}

export function Card({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return (
    <section class="card">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

export interface Column {
  title: string;
  of: (row: Record<string, any>) => ComponentChildren;
}

/** Rows under their titles; `empty` is what is said when there are none. */
export function Table(props: {
  label: string;
  columns: Column[];
  rows: Record<string, any>[];
  empty: string;
}): JSX.Element {
  if (props.rows.length === 0) return <p class="empty">{props.empty}</p>;
  return (
    <div class="scroll">
      <table aria-label={props.label}>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th scope="col">{column.title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr>
              {props.columns.map((column) => (
                <td>{column.of(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
