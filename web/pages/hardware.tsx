import { useQuery } from "@tanstack/react-query";
import { machineHistoryQuery, machinesQuery } from "../api/hardware.ts";
import type { GpuHistoryRecord, MachineRecord } from "../api/hardware.ts";
import { Card } from "../parts/card.tsx";
import { Empty } from "../parts/empty.tsx";
import { Fact } from "../parts/fact.tsx";
import { bytes, count } from "../parts/format.ts";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { Skeleton } from "../parts/skeleton.tsx";
import { Evictions } from "./hardware/evictions.tsx";
import { GpuView } from "./hardware/gpu-view.tsx";

/** The machines of the installation, and what their GPUs do. For the operator. */
export function Hardware() {
  const { data: machines, error, refetch } = useQuery(machinesQuery);
  const { data: past = [] } = useQuery(machineHistoryQuery);
  const historyOf = new Map(past.map(({ nodeId, history }) => [nodeId, history]));
  return (
    <Page title="Hardware" subtitle="The machines that run the service, and which apps have their GPUs.">
      {error ? (
        <Card isFlush>
          <Problem error={error} onRetry={() => void refetch()} />
        </Card>
      ) : (
        (machines?.map((machine) => (
          <Machine key={machine.nodeId} machine={machine} history={historyOf.get(machine.nodeId)} />
        )) ?? (
          <Card>
            <Skeleton className="h-24" />
          </Card>
        ))
      )}
    </Page>
  );
}

type Props = { readonly machine: MachineRecord; readonly history: GpuHistoryRecord | undefined };

function Machine({ machine, history }: Props) {
  const { name, isSelf, cpus, memoryBytes, driver, trouble, gpus } = machine;
  const none = trouble === null ? "none" : "unknown";
  return (
    <Card
      title={
        <>
          <span className="wrap-anywhere">{name}</span>{" "}
          {isSelf && <span className="font-normal text-ink-faint">this one</span>}
        </>
      }
      isFlush
    >
      <dl className="grid grid-cols-2 gap-x-6 gap-y-3 p-4 sm:grid-cols-4">
        <Fact title="Processors">{count(cpus)}</Fact>
        <Fact title="Memory">{bytes(memoryBytes)}</Fact>
        <Fact title="GPUs">{gpus.length === 0 ? none : count(gpus.length)}</Fact>
        <Fact title="NVIDIA driver">{driver ?? none}</Fact>
      </dl>
      {trouble !== null && <Problem error={new Error(trouble)} />}
      {gpus.length > 0 ? (
        <ul aria-label={`GPUs of ${name}`} className="border-t border-line">
          {gpus.map((gpu) => (
            <GpuView key={gpu.uuid} gpu={gpu} history={history} />
          ))}
        </ul>
      ) : (
        trouble === null && <NoGpus />
      )}
      {history && <Evictions evictions={history.evictions} />}
    </Card>
  );
}

function NoGpus() {
  return (
    <div className="border-t border-line">
      <Empty title="No GPUs">
        <p>
          Apps run on the processors of this machine. If it has an NVIDIA GPU, install its driver, check that{" "}
          <code className="font-mono">nvidia-smi</code> works for the user that runs the service, and restart
          the service. <code className="font-mono">millrace doctor</code> says what is missing.
        </p>
        <p className="mt-2">
          <a href="/guide/gpus.html" className="text-accent underline">
            GPUs in the guide
          </a>
        </p>
      </Empty>
    </div>
  );
}
