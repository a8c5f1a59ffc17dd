import { Link } from "@tanstack/react-router";
import { nameOf } from "../../api/apps.ts";
import type { GpuHistoryRecord, GpuRecord } from "../../api/hardware.ts";
import { Badge } from "../../parts/badge.tsx";
import { Lines } from "../../parts/charts/lines.tsx";
import { Fact } from "../../parts/fact.tsx";
import { bytes } from "../../parts/format.ts";

type Props = { readonly gpu: GpuRecord; readonly history: GpuHistoryRecord | undefined };

/** A GPU: its health, how full it is and was, what it does, and which apps have it. */
export function GpuView({ gpu, history }: Props) {
  const { index, model, name, uuid, busId, isMig, fault, utilization, watts, celsius } = gpu;
  return (
    <li className="border-t border-line p-4 first:border-t-0">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <h3 className="font-semibold wrap-anywhere" title={name}>
          GPU {index} <span className="text-ink-soft">{model}</span>
        </h3>
        <Badge tone={fault === null ? "good" : "bad"}>{fault === null ? "works" : "out of service"}</Badge>
        {isMig && <Badge>MIG instance</Badge>}
        <code className="font-mono text-[0.86rem] text-ink-soft wrap-anywhere sm:ml-auto">{uuid}</code>
      </div>
      {fault !== null && <p className="mt-1 text-bad wrap-anywhere">{fault}</p>}
      <Memory gpu={gpu} />
      <dl className="mt-3 grid grid-cols-2 gap-x-6 gap-y-3 sm:grid-cols-4">
        <Fact title="Utilization">{utilization === null ? "–" : percent(utilization)}</Fact>
        <Fact title="Temperature">{celsius === null ? "–" : `${Math.round(celsius)} °C`}</Fact>
        <Fact title="Power">{watts === null ? "–" : `${Math.round(watts)} W`}</Fact>
        <Fact title="PCI bus">
          <code className="font-mono text-[0.9rem] wrap-anywhere">{busId}</code>
        </Fact>
        <Fact title="Held by" isWide>
          <Holders gpu={gpu} />
        </Fact>
      </dl>
      {history && <Hour gpu={gpu} history={history} />}
    </li>
  );
}

/** The whole bar is the GPU's memory: above what is in use, below what is granted. */
function Memory({ gpu }: { readonly gpu: GpuRecord }) {
  const { memoryBytes: total, usedBytes: used, freeBytes: free, grantedBytes: granted } = gpu;
  const told = [
    { title: "Used", value: used, colour: "var(--chart-1)" },
    { title: "Granted", value: granted, colour: "var(--chart-4)" },
    { title: "Free", value: free, colour: "var(--sunken)" },
  ] as const;
  return (
    <div className="mt-3">
      <div aria-hidden="true" className="relative h-3.5 overflow-hidden rounded border border-line bg-sunken">
        <div className="absolute bottom-0 left-0 h-1/2" style={partOf(granted, total, "var(--chart-4)")} />
        <div className="absolute top-0 left-0 h-1/2" style={partOf(used ?? 0, total, "var(--chart-1)")} />
      </div>
      <ul
        aria-label={`Memory of GPU ${gpu.index}`}
        className="tabular mt-1.5 flex flex-wrap gap-x-4 gap-y-1 text-[0.92rem]"
      >
        {told.map(({ title, value, colour }) => (
          <li key={title} className="flex items-center gap-1.5">
            <span
              aria-hidden="true"
              className="size-2.5 rounded-xs border border-line-strong"
              style={{ background: colour }}
            />
            <span className="text-ink-soft">{title}</span>{" "}
            <span>{value === null ? "unknown" : bytes(value)}</span>
          </li>
        ))}
        <li className="ml-auto text-ink-soft">of {bytes(total)}</li>
      </ul>
    </div>
  );
}

/** What the driver does not say, as of most MIG instances the utilization, has no chart. */
function Hour({
  gpu: { index, uuid, memoryBytes },
  history,
}: Props & { readonly history: GpuHistoryRecord }) {
  const of = history.gpus.find((each) => each.uuid === uuid);
  const charts = [
    { title: "Memory in use", list: of?.usedBytes ?? [], top: memoryBytes, format: bytes },
    { title: "Utilization", list: of?.utilization ?? [], top: 100, format: percent },
  ].filter(({ list }) => list.some((value) => value !== null));
  return (
    <div className="mt-3 grid gap-4 xl:grid-cols-2">
      {charts.map(({ title, list, top, format }) => (
        <section key={title}>
          <h4 className="mb-1 text-[0.86rem] text-ink-faint">{title}, the last hour</h4>
          <Lines
            label={`${title} of GPU ${index} in the last hour`}
            axis={{ fromMs: Date.parse(history.from), stepMs: history.stepMs, steps: list.length }}
            series={[{ name: "value", title, colour: "var(--chart-1)" }]}
            values={list.map((value) => ({ value }))}
            top={top}
            format={format}
            empty="Nothing in the last hour."
          />
        </section>
      ))}
    </div>
  );
}

function percent(value: number): string {
  return `${Math.round(value)} %`;
}

function partOf(value: number, total: number, background: string): { width: string; background: string } {
  const share = total === 0 ? 0 : Math.min(1, value / total);
  return { width: `${(share * 100).toFixed(2)}%`, background };
}

/** Each app once, with how many replicas it has there, and their share. */
function Holders({ gpu: { holders } }: { readonly gpu: GpuRecord }) {
  if (holders.length === 0) return <span className="text-ink-soft">no app</span>;
  const apps = [...new Set(holders.map(({ appId }) => appId))].map((appId) => {
    const held = holders.filter((holder) => holder.appId === appId);
    return { appId, held, projectId: held[0]?.projectId ?? "" };
  });
  return (
    <ul className="flex flex-col gap-1">
      {apps.map(({ appId, projectId, held }) => (
        <li key={appId} className="flex flex-wrap gap-x-2">
          <Link
            to="/projects/$projectId/apps/$appName"
            params={{ projectId, appName: nameOf(projectId, appId) }}
            className="text-accent underline-offset-2 wrap-anywhere hover:underline"
          >
            {nameOf(projectId, appId)}
          </Link>
          <span className="text-ink-soft">{sharesOf(held)}</span>
        </li>
      ))}
    </ul>
  );
}

function sharesOf(held: GpuRecord["holders"]): string {
  const shares = held.map(({ memoryBytes }) => memoryBytes);
  const replicas = held.length === 1 ? "1 replica" : `${held.length} replicas`;
  const share = shares.includes(null)
    ? "the whole GPU"
    : bytes(shares.reduce<number>((sum, one) => sum + (one ?? 0), 0));
  return `${replicas}, ${share}`;
}
