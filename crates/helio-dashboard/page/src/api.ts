// What the head is asked, and how often.
import { useEffect, useState } from "preact/hooks";
import type { Answers, Done, Envelope, Inner, Listing, PastOfCluster } from "./answers";
import type { Lists } from "./rows";

/** Lists whose changes are told are new as of the change: so old an answer may be, and the cluster is not asked once more for it. */
export const AGE_MS = 400;

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

type Field = string | number | string[];

/** The address of a route: fields that its path names stand there, the others follow as its query. */
function addressOf(path: string, fields: Record<string, Field>): string {
  const query = new URLSearchParams();
  const within = path.replace(/{(\w+)}/g, (_, name: string) => encodeURIComponent(String(fields[name])));
  for (const [name, value] of Object.entries(fields)) {
    if (path.includes(`{${name}}`)) continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  return query.size > 0 ? `${within}?${query}` : within;
}

/** What a route answers: its path says of which type that is. */
export async function json<Path extends keyof Answers>(path: Path, fields: Record<string, Field> = {}): Promise<Answers[Path]> {
  return (await ask(addressOf(path, fields))).json();
}

/** Has something done; `what` is the method and the path. */
export async function send<What extends keyof Done>(what: What, fields: Record<string, Field> = {}): Promise<Done[What]> {
  const [method, path] = what.split(" ") as [string, string];
  return (await ask(addressOf(path, fields), { method })).json();
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
): Promise<Listing<Lists[Name]>> {
  const path: keyof Answers = `/api/v0/${resource}`;
  const told = await json(path, {
    detail: 1,
    why: 1,
    limit,
    age: AGE_MS,
    filter_keys: filters.map(({ column }) => column),
    filter_predicates: filters.map(({ predicate }) => predicate),
    filter_values: filters.map(({ value }) => value),
    ...(next === null ? {} : { next }),
    ...(order ? { order } : {}),
  });
  return (told as Envelope<Inner<Listing<Lists[Name]>>>).data.result;
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
let past: PastOfCluster | undefined;

/** Says that the cluster is gone: time stands still, and nothing is asked for twice. */
export function standIn(history: PastOfCluster): void {
  past = history;
  plan();
}

/** Whether the cluster has ended, and what is seen is its history. */
export function isPast(): boolean {
  return past !== undefined;
}

/** The time in milliseconds, of a cluster that is gone when it was heard of last. */
export function now(): number {
  return past?.ended_ms ?? Date.now();
}

export interface Asked<T> {
  value?: T;
  error?: string;
}

/** Lists whose changes the head says as they happen. */
export type Followed = keyof Lists | "training" | "tuning" | "datasets" | "serving";

const followers = new Map<Followed, Set<() => void>>();
let source: EventSource | undefined;
let followed = "";
let isFollowing = false;
let isPlanned = false;

function wake(names: Iterable<Followed>): void {
  for (const one of new Set([...names].flatMap((name) => [...(followers.get(name) ?? [])]))) one();
}

/** Keeps one connection on which the head says what has changed of what is shown, while the page is seen. */
function connect(): void {
  isPlanned = false;
  const isSeen = document.visibilityState === "visible" && !past;
  const of = isSeen ? [...followers].filter(([, all]) => all.size > 0).map(([name]) => name).sort().join() : "";
  if (of === followed) return;
  source?.close();
  [source, followed, isFollowing] = [undefined, of, false];
  if (!of) return;
  source = new EventSource(`/api/v0/changes?of=${of}`);
  source.onmessage = (event) => {
    isFollowing = true;
    wake(JSON.parse(event.data));
  };
  source.onerror = () => {
    // Until it is there again everybody asks by the clock.
    const was = isFollowing;
    isFollowing = false;
    if (was) wake(followers.keys());
  };
}

function plan(): void {
  if (!isPlanned) setTimeout(connect);
  isPlanned = true;
}

document.addEventListener("visibilitychange", plan);

/** What nobody says to have changed is asked for again after so many times the usual. */
const RARELY = 10;
/** How long something has taken so far is shown anew so often. */
const TICK_MS = 1000;

/**
 * Asks again when one of the lists in `follows` has changed, or (with none, or without a connection) every `everyMs`, while
 * the page is seen; what is asked for anew replaces an answer at once.
 */
export function useAsked<T>(question: () => Promise<T>, everyMs: number | (() => number), dependencies: unknown[], follows: Followed[] = []): Asked<T> {
  const [asked, setAsked] = useState<Asked<T>>({});
  useEffect(() => {
    let over = false;
    let timer = 0;
    let isAsking = false;
    let isLate = false;
    const again = async () => {
      clearTimeout(timer);
      if (isAsking) {
        isLate = true;
        return;
      }
      if (document.visibilityState === "visible") {
        isAsking = true;
        try {
          const value = await question();
          if (!over) setAsked({ value });
        } catch (error) {
          if (!over) setAsked((before) => ({ ...before, error: error instanceof Error ? error.message : String(error) }));
        }
        isAsking = false;
      }
      if (over || past) return;
      if (isLate) {
        isLate = false;
        void again();
        return;
      }
      const pause = typeof everyMs === "number" ? everyMs : everyMs();
      timer = window.setTimeout(again, isFollowing && follows.length > 0 ? RARELY * pause : pause);
    };
    void again();
    const wakes = () => void again();
    for (const name of follows) {
      if (!followers.has(name)) followers.set(name, new Set());
      followers.get(name)!.add(wakes);
    }
    const ticks = follows.length > 0 ? window.setInterval(() => setAsked((before) => ({ ...before })), TICK_MS) : 0;
    plan();
    return () => {
      over = true;
      clearTimeout(timer);
      clearInterval(ticks);
      for (const name of follows) followers.get(name)!.delete(wakes);
      plan();
    };
  }, dependencies);
  return asked;
}
