// Training runs, while they go on and afterwards: the one that is opened, or two over each other.
import type { JSX } from "preact";
import type { TrainingRun as Run } from "./answers";
import { json, useAsked } from "./api";
import { Compared } from "./compared";
import { One } from "./run";
import { Problem, State, Table, count, moment } from "./show";

function to(...ids: string[]): string {
  return `#/${["training", ...ids.map(encodeURIComponent)].join("/")}`;
}

/** Chooses the run that is laid over the opened one. */
function Chooser({ opened, over, runs }: { opened: Run; over: Run | undefined; runs: Run[] }): JSX.Element | null {
  const others = runs.filter((run) => run !== opened);
  if (others.length === 0) return null;
  return (
    <p class="filters">
      <label>
        Compare {opened.name} with{" "}
        <select
          value={over?.run_id ?? ""}
          onChange={({ currentTarget: { value } }) => location.assign(value ? to(opened.run_id, value) : to(opened.run_id))}
        >
          <option value="">no other run</option>
          {others.map((run) => (
            <option value={run.run_id}>
              {run.name}, {moment(1000 * run.seen.started_at)}
            </option>
          ))}
        </select>
      </label>
    </p>
  );
}

/** `id` is of the run that is opened, `otherId` of the one that is laid over it. */
export function Training({ id, otherId }: { id: string | undefined; otherId: string | undefined }): JSX.Element {
  const { value, error } = useAsked(async () => (await json("/api/v0/training")).runs, 1000, [], ["training", "jobs"]);
  const known = (wanted: string | undefined) => value?.find((run) => run.run_id === wanted);
  const opened = known(id) ?? value?.[0];
  const over = known(otherId);
  return (
    <>
      <h1>Training</h1>
      <Problem text={error} />
      {value && id !== undefined && !known(id) && <Problem text={`There is no training run ${id}; only the latest are kept.`} />}
      {value && opened && <Chooser opened={opened} over={over} runs={value} />}
      {opened && over && over !== opened && <Compared runs={[opened, over]} key={`${opened.run_id} ${over.run_id}`} />}
      {opened && (!over || over === opened) && <One run={opened} key={opened.run_id} />}
      {value && value.length > 0 && <h2>All runs</h2>}
      {value && (
        <Table
          label="Runs"
          empty="No training run has been started in this cluster."
          rows={value}
          columns={[
            { title: "State", of: (run) => <State of={(run.is_left ? "left" : run.seen.state).toUpperCase()} /> },
            { title: "Run", of: (run) => <a href={to(run.run_id)}>{run.name}</a> },
            { title: "Started", of: (run) => <span class="moment">{moment(1000 * run.seen.started_at)}</span> },
            { title: "Workers", of: (run) => run.seen.workers, number: true },
            { title: "Reports", of: (run) => count(run.seen.reports), number: true },
          ]}
        />
      )}
    </>
  );
}
