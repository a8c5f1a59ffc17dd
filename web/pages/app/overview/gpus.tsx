import { useQuery } from "@tanstack/react-query";
import { gpuSteps, gpusOf } from "../../../api/gpu-history.ts";
import type { AppGpu } from "../../../api/gpu-history.ts";
import { replicasQuery } from "../../../api/replicas.ts";
import { Card } from "../../../parts/card.tsx";
import { Lines } from "../../../parts/charts/lines.tsx";
import { bytes, count } from "../../../parts/format.ts";

const COLOURS = ["--chart-1", "--chart-4", "--chart-5", "--chart-2", "--chart-3"].map(
  (name) => `var(${name})`,
);

/** Which GPUs an app's replicas have, and how full these are and have been. */
export function Gpus({ projectId, appName }: { readonly projectId: string; readonly appName: string }) {
  const { data: seen, dataUpdatedAt } = useQuery(replicasQuery(projectId, appName));
  const gpus = gpusOf(seen?.replicas ?? []);
  if (gpus.length === 0) return null;
  const drawn = gpus.slice(0, COLOURS.length);
  const series = drawn.map((gpu, index) => ({
    name: gpu.uuid,
    title: titleOf(gpu),
    colour: COLOURS[index] ?? "",
  }));
  const { axis, values } = gpuSteps(
    seen?.readings ?? [],
    drawn.map(({ uuid }) => uuid),
    dataUpdatedAt,
  );
  const hidden = gpus.length - drawn.length;
  return (
    <Card
      title="GPUs"
      actions={<span className="text-[0.9rem] text-ink-faint">since this page was opened</span>}
    >
      <ul aria-label="GPUs of its replicas" className="mb-3 flex flex-col gap-1">
        {drawn.map((gpu, index) => (
          <GpuNow key={gpu.uuid} gpu={gpu} colour={COLOURS[index] ?? ""} />
        ))}
        {hidden > 0 && <li className="text-ink-faint">and {count(hidden)} more</li>}
      </ul>
      <Lines
        label="Memory in use of each GPU in the last 15 minutes, since this page was opened"
        axis={axis}
        series={series}
        values={values}
        top={Math.max(0, ...drawn.map(({ totalBytes }) => totalBytes ?? 0))}
        format={bytes}
        empty={
          drawn.every(({ usedBytes }) => usedBytes === null)
            ? "The driver does not say how much is in use."
            : "Nothing is in use."
        }
      />
    </Card>
  );
}

/** As people tell GPUs of one model apart. */
function titleOf({ model, uuid }: AppGpu): string {
  return `${model ?? "gone"} ${uuid.split("-").slice(0, 2).join("-")}`;
}

function GpuNow({ gpu, colour }: { readonly gpu: AppGpu; readonly colour: string }) {
  const { uuid, usedBytes, totalBytes, grantedBytes } = gpu;
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
    </li>
  );
}
