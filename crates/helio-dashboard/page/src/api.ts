// What the head is asked, and how often.
import { useEffect, useState } from "preact/hooks";
import type { Lists } from "./rows";

export interface Page<Row> {
  total: number;
  num_filtered: number;
  result: Row[];
  next: string | null;
  partial_failure_warning: string;
}

export class Refused extends Error {
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text);
  }
}

async function ask(path: string, init?: RequestInit): Promise<Response> {
  const answer = await fetch(path, init);
  if (answer.status === 401 || (answer.status === 403 && (init?.method ?? "GET") === "GET")) {
    location.assign("/login");
  }
  if (!answer.ok) {
    const text = await answer.text();
    let said = text;
    try {
      said = JSON.parse(text).msg ?? text;
    } catch {
      // It is a sentence as it stands.
    }
    throw new Refused(answer.status, said);
  }
  return answer;
}

export async function json<T = any>(path: string, init?: RequestInit): Promise<T> {
  return (await ask(path, init)).json();
}

export async function text(path: string): Promise<string> {
  return (await ask(path)).text();
}

export interface Filter {
  column: string;
  predicate: "=" | "!=";
  value: string;
}

/** One page of a list of the state API. */
export async function list<Name extends keyof Lists>(
  resource: Name,
  filters: Filter[],
  limit: number,
  next: string | null = null,
  order = "",
): Promise<Page<Lists[Name]>> {
  const query = new URLSearchParams({ detail: "1", why: "1", limit: String(limit) });
  for (const { column, predicate, value } of filters) {
    query.append("filter_keys", column);
    query.append("filter_predicates", predicate);
    query.append("filter_values", value);
  }
  if (next !== null) query.set("next", next);
  if (order) query.set("order", order);
  return (await json(`/api/v0/${resource}?${query}`)).data.result;
}

/** The only row, or the rows, of a list with that value in a column. */
export async function rowsWith<Name extends keyof Lists>(
  resource: Name,
  column: keyof Lists[Name] & string,
  value: string,
  limit = 100,
  order = "",
): Promise<Lists[Name][]> {
  return (await list(resource, [{ column, predicate: "=", value }], limit, null, order)).result;
}

/** What the page shows when the cluster is gone: what its head wrote down. */
export interface History {
  begun_ms: number;
  ended_ms: number;
  release: string;
  notes: string[];
}

let past: History | undefined;

/** Says that the cluster is gone: time stands still, and nothing is asked for twice. */
export function standIn(history: History): void {
  past = history;
}

/** The time in milliseconds, of a cluster that is gone when it was heard of last. */
export function now(): number {
  return past?.ended_ms ?? Date.now();
}

export interface Asked<T> {
  value?: T;
  error?: string;
}

/** Asks again every `everyMs`, while the page is seen; what is asked for anew replaces an answer at once. */
export function useAsked<T>(question: () => Promise<T>, everyMs: number | (() => number), dependencies: unknown[]): Asked<T> {
  const [asked, setAsked] = useState<Asked<T>>({});
  useEffect(() => {
    let over = false;
    let timer = 0;
    const again = async () => {
      if (document.visibilityState === "visible") {
        try {
          const value = await question();
          if (!over) setAsked({ value });
        } catch (error) {
          if (!over) setAsked((before) => ({ ...before, error: error instanceof Error ? error.message : String(error) }));
        }
      }
      if (!over && !past) timer = window.setTimeout(again, typeof everyMs === "number" ? everyMs : everyMs());
    };
    void again();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, dependencies);
  return asked;
}
