// Executions of datasets: the plan as a graph, what came of each operator, and what bounds it.
import type { JSX } from "preact";
import type { DatasetRun as Execution, Operator } from "./answers";
import { json } from "./api";
import { Chart } from "./chart";
import { Runs } from "./runs";
import { Bar, Card, Crumbs, Figures, Id, Name, Problem, State, Table, bytes, count, duration, many, moment } from "./show";

function stateOf(run: Execution): string {
  return run.is_left ? "DRIVER ENDED" : run.seen.state;
}

const BOUNDS: Record<string, string> = {
  memory: "memory: its share of the object store is full",
  tasks: "its own tasks",
  input: "its input",
};

/** The operator that the others wait for: the last that works although blocks wait for it, or that memory holds up. */
function bottleneck(operators: Operator[]): number {
  const held = operators.findIndex((one) => one.bound === "memory");
  if (held >= 0) return held;
  let found = -1;
  operators.forEach((one, at) => {
    if (one.bound === "tasks" && (found < 0 || one.backlog_blocks >= operators[found]!.backlog_blocks)) found = at;
  });
  return found;
}

const [WIDE, TALL, GAP_X, GAP_Y] = [210, 92, 54, 18];

/** How far each operator is from the beginning. */
function ranks(operators: Operator[]): number[] {
  const found: number[] = [];
  operators.forEach((one) => found.push(Math.max(-1, ...one.sources.map((source) => found[source] ?? -1)) + 1));
  return found;
}

function Plan({ operators }: { operators: Operator[] }): JSX.Element {
  const rank = ranks(operators);
  const taken = new Map<number, number>();
  const places = operators.map((_, at) => {
    const column = rank[at]!;
    const row = taken.get(column) ?? 0;
    taken.set(column, row + 1);
    return { x: column * (WIDE + GAP_X), y: row * (TALL + GAP_Y) };
  });
  const width = (Math.max(0, ...rank) + 1) * (WIDE + GAP_X) - GAP_X;
  const height = Math.max(1, ...taken.values()) * (TALL + GAP_Y) - GAP_Y;
  const worst = bottleneck(operators);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="The plan, may be wider than it is shown">
      <svg class="plan" viewBox={`-2 -2 ${width + 4} ${height + 4}`} style={{ minWidth: `${Math.min(width, 0.8 * width + 100)}px`, maxWidth: `${1.2 * width}px` }} role="img" aria-label={`Plan of ${operators.length} operators`}>
        {operators.flatMap((one, at) =>
          one.sources.map((source) => {
            const [from, to] = [places[source]!, places[at]!];
            const [x, y, right, down] = [from.x + WIDE, from.y + TALL / 2, to.x, to.y + TALL / 2];
            return (
              <>
                <path d={`M${x} ${y} C${x + GAP_X / 2} ${y} ${right - GAP_X / 2} ${down} ${right} ${down}`} />
                <path d={`M${right - 7} ${down - 4}L${right - 1} ${down}L${right - 7} ${down + 4}`} />
                {one.backlog_blocks > 0 && (
                  <text x={right - 4} y={down - 8} text-anchor="end">
                    {one.backlog_blocks}
                  </text>
                )}
              </>
            );
          }),
        )}
        {operators.map((one, at) => {
          const { x, y } = places[at]!;
          const kind = one.bound || "done";
          // How many tasks there will be is not known of all.
          const part = one.expected ? Math.min(1, one.tasks / one.expected) : one.bound ? null : 1;
          return (
            <g class={`${kind}${at === worst ? " bottleneck" : ""}`}>
              <title>{`${one.name}: ${one.bound ? `limited by ${BOUNDS[one.bound]}` : "done"}`}</title>
              <rect class="box" x={x} y={y} width={WIDE} height={TALL} rx={8} />
              <text class="title" x={x + 12} y={y + 22}>
                {one.name.length > 23 ? `${one.name.slice(0, 22)}…` : one.name}
              </text>
              <text x={x + 12} y={y + 40}>{`${count(one.rows)} rows, ${bytes(one.bytes)}`}</text>
              <text x={x + 12} y={y + 56}>{`${one.running} running, ${count(one.tasks)}${one.expected ? ` of ${count(one.expected)}` : ""} tasks`}</text>
              <text x={x + 12} y={y + 72}>{one.bound ? `limited by ${one.bound === "memory" ? "memory" : `its ${one.bound}`}` : "done"}</text>
              {part !== null && <rect class="part" x={x + 12} y={y + 79} width={WIDE - 24} height={4} rx={2} />}
              {part !== null && <rect class="filled" x={x + 12} y={y + 79} width={(WIDE - 24) * part} height={4} rx={2} />}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function rates(past: [number, number, number][]): (number | null)[] {
  return past.map(([at, rows], index) => {
    const before = past[index - 1];
    return before && at > before[0] ? Math.max(0, (rows - before[1]) / (at - before[0])) : null;
  });
}

function One({ run }: { run: Execution }): JSX.Element {
  const { seen } = run;
  const worst = seen.operators[bottleneck(seen.operators)];
  const goesOn = !run.is_over && !run.is_left;
  return (
    <>
      <Crumbs part="datasets" title="Datasets" />
      <h1>
        {run.name} <State of={stateOf(run)} />
      </h1>
      {seen.why && <Problem text={seen.why} />}
      <Figures
        of={[
          ["Rows produced", count(seen.rows)],
          ["Duration", duration(1000 * seen.took_s)],
          ["Rows/s", count(seen.rows / Math.max(seen.took_s, 1e-3))],
          ["Object store", <>{bytes(seen.held_bytes)} <small>of {bytes(seen.budget_bytes)}</small></>],
          ["Started", <small>{moment(1000 * run.started_at)}</small>],
          ["Job", <small><Id of={run.job_id} to="jobs" /></small>],
        ]}
      />
      {goesOn && worst && (
        <p>
          <b>{worst.name}</b> is the bottleneck: it is limited by {BOUNDS[worst.bound]}.
        </p>
      )}
      <Card title="Plan">
        <Plan operators={seen.operators} />
        <p class="legend">
          <span class="runs">limited by its tasks</span>
          <span class="other">limited by memory</span>
          <span>limited by its input</span>
          <span class="good">done</span>
          <span>Numbers on lines: queued blocks.</span>
        </p>
      </Card>
      {seen.past.length > 2 && (
        <div class="grid half">
          <Card title="Rows/s">
            <Chart label="Rows/s" times={seen.past.map(([at]) => at)} series={[{ label: "rows/s", values: rates(seen.past) }]} isMoment={false} across="seconds" />
          </Card>
          <Card title="Object store use">
            <Chart label="Object store use" times={seen.past.map(([at]) => at)} series={[{ label: "bytes", values: seen.past.map((point) => point[2]) }]} isMoment={false} isBytes across="seconds" />
          </Card>
        </div>
      )}
      <Card title="Operators">
        <Table
          label="Operators"
          empty="The plan has no operators."
          rows={seen.operators}
          columns={[
            { title: "Operator", of: (row) => <Name of={row.name} /> },
            { title: "Limited by", of: (row) => (row.bound ? BOUNDS[row.bound] : <State of="FINISHED" />) },
            { title: "Tasks", of: (row) => `${count(row.tasks)}${row.expected ? ` / ${count(row.expected)}` : ""}`, number: true },
            { title: "Running", of: (row) => row.running || "", number: true },
            { title: "Failed", of: (row) => row.failed || "", number: true },
            { title: "Rows", of: (row) => count(row.rows), number: true },
            { title: "Bytes", of: (row) => bytes(row.bytes), number: true },
            { title: "Queued input", of: (row) => (row.backlog_blocks ? `${many(row.backlog_blocks, "block")}, ${bytes(row.backlog_bytes)}` : ""), number: true },
            {
              title: "In user code",
              of: (row) =>
                row.wall_s ? (
                  <span title={`${duration(1000 * row.udf_s)} of ${duration(1000 * row.wall_s)}`}>
                    <Bar part={row.udf_s / row.wall_s} label="share of its time in user code">{`${Math.round((100 * row.udf_s) / row.wall_s)} %`}</Bar>
                  </span>
                ) : (
                  ""
                ),
            },
            { title: "Waiting for", of: (row) => row.waits && <span class="lines" title={row.waits}>{row.waits}</span> },
          ]}
        />
      </Card>
    </>
  );
}

export function Datasets({ id }: { id: string | undefined }): JSX.Element {
  return (
    <Runs<Execution>
      title="Datasets"
      ask={async () => (await json("/api/v0/datasets")).runs}
      list="datasets"
      id={id}
      one={(run) => <One run={run} />}
      unknown={(wanted) => `There is no execution ${wanted}; only the latest are kept.`}
      label="Executions"
      empty="No dataset has been executed in this cluster. An execution is listed after its first second."
      columns={[
        { title: "Execution", of: (run) => <a href={`#/datasets/${run.run_id}`}>{run.name}</a> },
        { title: "State", of: (run) => <State of={stateOf(run)} /> },
        { title: "Rows", of: (run) => count(run.seen.rows), number: true },
        { title: "Duration", of: (run) => duration(1000 * run.seen.took_s), number: true },
        { title: "Bottleneck", of: (run) => (run.is_over ? "" : run.seen.operators[bottleneck(run.seen.operators)]?.name) },
        { title: "Started", of: (run) => <span class="moment">{moment(1000 * run.started_at)}</span> },
        { title: "Job", of: (run) => <Id of={run.job_id} to="jobs" /> },
      ]}
    />
  );
}
