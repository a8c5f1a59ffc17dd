import type { Schema } from "../../api/schema.ts";
import { rowsOf, ruleOf, typeOf } from "./schema-text.ts";

/** The members of a body or an answer, with their types and bounds. */
export function SchemaTable({ schema, label }: { readonly schema: Schema; readonly label: string }) {
  const rows = rowsOf(schema);
  if (rows.length === 0) {
    const rule = ruleOf(schema);
    return <p className="text-ink-soft">{rule === "" ? typeOf(schema) : `${typeOf(schema)}, ${rule}`}</p>;
  }
  return (
    <div className="scrolls-sideways" tabIndex={0} role="region" aria-label={label}>
      <table className="w-full text-left">
        <tbody>
          {rows.map(({ name, depth, type, isRequired, rule }, index) => (
            <tr key={index} className="border-t border-line align-top first:border-t-0">
              <th scope="row" className="py-1.5 pr-4 font-normal whitespace-nowrap">
                <code className="font-mono text-[0.9rem]" style={{ paddingLeft: `${depth * 1.25}rem` }}>
                  {name}
                </code>
                {isRequired && <span className="ml-2 text-[0.82rem] text-warn">required</span>}
              </th>
              <td className="py-1.5 pr-4 font-mono text-[0.88rem] text-ink-soft">{type}</td>
              <td className="py-1.5 text-[0.92rem] text-ink-faint">{rule}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
