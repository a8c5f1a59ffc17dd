import type { Run } from "../../api/runs.ts";
import { Badge } from "../../parts/badge.tsx";
import { Card } from "../../parts/card.tsx";
import { CodeBlock } from "../../parts/copy.tsx";

/** Why a run failed, with the traceback where it wrote one. */
export function Failure({ run, traceback }: { readonly run: Run; readonly traceback: string | null }) {
  if (run.error === null) return null;
  const { code, message } = run.error;
  return (
    <Card title="Error" actions={<Badge tone={run.status === "cancelled" ? "neutral" : "bad"}>{code}</Badge>}>
      <p className="max-h-40 overflow-auto font-medium break-words whitespace-pre-wrap">{message || code}</p>
      {traceback !== null && (
        <div className="mt-3">
          <CodeBlock text={traceback} label="Traceback" />
        </div>
      )}
    </Card>
  );
}
