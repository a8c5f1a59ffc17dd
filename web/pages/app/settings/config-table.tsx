import type { ConfigEntry } from "../../../api/apps.ts";
import { bytes, span } from "../../../parts/format.ts";
import { Cell, Row, Table } from "../../../parts/table.tsx";
import { SCALING_FIELDS } from "./scaling-fields.ts";

const COLUMNS = [{ title: "Key" }, { title: "Value" }, { title: "Meaning", isMinor: true }] as const;
const MAX_CHARS = 2_000;

/** Every key that is not changed here. */
export function ConfigTable({ keys }: { readonly keys: readonly ConfigEntry[] }) {
  const shown = keys.filter(({ key }) => !SCALING_FIELDS.some((field) => field.key === key));
  return (
    <Table columns={COLUMNS} label="Configuration">
      {shown.map((entry) => (
        <Row key={entry.key}>
          <Cell className="py-3 align-top font-mono text-[0.9rem] max-md:break-all max-md:!whitespace-normal">
            {entry.key}
          </Cell>
          <Cell className="max-w-xs min-w-32 py-3 align-top !whitespace-normal">
            <Value entry={entry} />
          </Cell>
          <Cell isMinor className="min-w-60 py-3 align-top !whitespace-normal text-ink-soft">
            {entry.meaning.replaceAll("`", "")}
          </Cell>
        </Row>
      ))}
    </Table>
  );
}

function Value({ entry }: { readonly entry: ConfigEntry }) {
  const text = textOf(entry);
  if (text === "") return <span className="text-ink-faint">unset</span>;
  return (
    <span className="break-words whitespace-pre-wrap">
      {text.length > MAX_CHARS ? `${text.slice(0, MAX_CHARS)}…` : text}
    </span>
  );
}

function textOf({ value, unit }: ConfigEntry): string {
  if (value === 0 && unit === "seconds") return "0 s";
  if (typeof value === "number" && unit === "seconds") return span(value * 1_000);
  if (typeof value === "number" && unit === "bytes") return bytes(value);
  if (Array.isArray(value)) return value.join("\n");
  if (typeof value === "object" && value !== null) {
    return Object.entries(value)
      .map(([name, spec]) => `${name} ${spec}`.trim())
      .join("\n");
  }
  return value === null ? "" : String(value);
}
