import { useQuery } from "@tanstack/react-query";
import { appQuery } from "../../../api/apps.ts";
import { appSteps, gpusOf, OWN } from "../../../api/gpu-history.ts";
import type { AppGpu, AppGpus } from "../../../api/gpu-history.ts";
import { appGpusQuery, replicasQuery } from "../../../api/replicas.ts";
import { Card } from "../../../parts/card.tsx";
import type { Mark } from "../../../parts/charts/frame.tsx";
import { Legend } from "../../../parts/charts/legend.tsx";
import { Lines } from "../../../parts/charts/lines.tsx";
import { bytes, count } from "../../../parts/format.ts";
import { useDeployMarks } from "../deploy-marks.ts";

const COLOURS = ["--chart-1", "--chart-4", "--chart-5", "--chart-2", "--chart-3"].map(
  (name) => `var(${name})`,
);

const OWN_SERIES = { name: OWN, title: "this app's replicas", colour: "var(--ink)" };

/** Which GPUs an app's replicas have, and how full these were in the last hour while they had them. */
export function Gpus({ projectId, appName }: { readonly projectId: string; readonly appName: string }) {
  const { data: replicas = [] } = useQuery(replicasQuery(projectId, appName));
  const { data: app } = useQuery(appQuery(projectId, appName));
  const enabled = Number(app?.gpuCount ?? 0) > 0;
  const { data: hour } = useQuery({ ...appGpusQuery(projectId, appName), enabled });
  const marks = useDeployMarks(projectId, appName);
  const gpus = gpusOf(replicas);
  const had = hour?.gpus ?? [];
  // Those that they have now come first.
  const uuids = [...new Set([...gpus, ...had].map(({ uuid }) => uuid))];
  if (uuids.length === 0) return null;
  const colours = new Map(uuids.slice(0, COLOURS.length).map((uuid, index) => [uuid, COLOURS[index] ?? ""]));
  const listed = gpus.filter(({ uuid }) => colours.has(uuid));
  const hidden = gpus.length - listed.length;
  return (
    <Card title="GPUs" actions={<span className="text-[0.9rem] text-ink-faint">the last hour</span>}>
      <ul aria-label="GPUs of its replicas" className="mb-3 flex flex-col gap-1">
        {listed.map((gpu) => (
          <GpuNow key={gpu.uuid} gpu={gpu} colour={colours.get(gpu.uuid) ?? ""} />
        ))}
        {hidden > 0 && <li className="text-ink-faint">and {count(hidden)} more</li>}
        {gpus.length === 0 && <li className="text-ink-faint">Its replicas have none now.</li>}
      </ul>
      {hour && had.length > 0 && <Chart hour={hour} colours={colours} marks={marks} />}
    </Card>
  );
}

function Chart({
  hour,
  colours,
  marks,
}: {
  readonly hour: AppGpus;
  readonly colours: ReadonlyMap<string, string>;
  readonly marks: readonly Mark[];
}) {
  const drawn = hour.gpus.filter(({ uuid }) => colours.has(uuid));
  const { axis, values } = appSteps(hour, [...colours.keys()]);
  const series = drawn.map((gpu) => ({
    name: gpu.uuid,
    title: titleOf(gpu),
    colour: colours.get(gpu.uuid) ?? "",
  }));
  const isUnknown = values.every((step) => drawn.every(({ uuid }) => (step[uuid] ?? null) === null));
  return (
    <>
      <Legend series={[...series, OWN_SERIES]} />
      <Lines
        label="Memory in use of each GPU in the last hour, while this app had it, and by this app"
        axis={axis}
        series={[...series, OWN_SERIES]}
        values={values}
        marks={marks}
        top={Math.max(0, ...drawn.map(({ totalBytes }) => totalBytes ?? 0))}
        format={bytes}
        empty={isUnknown ? "The driver does not say how much is in use." : "Nothing is in use."}
      />
    </>
  );
}

/** As people tell GPUs of one model apart. */
function titleOf({ model, uuid }: Pick<AppGpu, "model" | "uuid">): string {
  return `${model ?? "gone"} ${uuid.split("-").slice(0, 2).join("-")}`;
}

function GpuNow({ gpu, colour }: { readonly gpu: AppGpu; readonly colour: string }) {
  const { uuid, usedBytes, ownUsedBytes, totalBytes, grantedBytes } = gpu;
  const granted = grantedBytes === null ? "all of it" : bytes(grantedBytes);
  return (
    <li className="tabular flex flex-wrap items-center gap-x-3" title={uuid}>
      <span className="flex items-center gap-1.5 font-medium">
        <span aria-hidden="true" className="size-2.5 rounded-xs" style={{ background: colour }} />
        {titleOf(gpu)}
      </span>
      <span>
        {usedBytes === null ? "use unknown" : `${bytes(usedBytes)} in use`}
        {totalBytes !== null && ` of ${bytes(totalBytes)}`}
      </span>
      <span className="text-ink-soft">granted to this app: {granted}</span>
      {ownUsedBytes !== null && <span className="text-ink-soft">used by it: {bytes(ownUsedBytes)}</span>}
    </li>
  );
}
