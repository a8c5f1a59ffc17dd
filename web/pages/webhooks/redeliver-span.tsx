import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { messageOf } from "../../api/answer.ts";
import { redeliverSpan } from "../../api/webhooks.ts";
import type { Span } from "../../api/webhooks.ts";
import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { count } from "../../parts/format.ts";
import { tell, tellError } from "../../parts/toasts.tsx";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

type Props = { readonly projectId: string; readonly isOpen: boolean; readonly onClose: () => void };

/** Asks for a span of time, says how many deliveries that are, and sends them again. */
export function RedeliverSpan(props: Props) {
  return (
    <Dialog title="Resend a time span" isOpen={props.isOpen} onClose={props.onClose} width="38rem">
      <SpanForm {...props} />
    </Dialog>
  );
}

function SpanForm({ projectId, onClose }: Props) {
  const queries = useQueryClient();
  const [from, setFrom] = useState(() => localTime(Date.now() - HOUR_MS));
  const [to, setTo] = useState(() => localTime(Date.now() + MINUTE_MS));
  const span = readSpan(from, to);
  const counted = useQuery({
    queryKey: ["redeliverable", projectId, span?.from, span?.to],
    queryFn: () => redeliverSpan(projectId, span!, true),
    enabled: span !== null,
    gcTime: 0,
  });
  const { mutate, isPending } = useMutation({
    mutationFn: (chosen: Span) => redeliverSpan(projectId, chosen, false),
    onSuccess: async (sent) => {
      await queries.invalidateQueries({ queryKey: ["deliveries", projectId] });
      onClose();
      tell(sent === 1 ? "1 delivery is sent again." : `${count(sent)} deliveries are sent again.`);
    },
    onError: tellError,
  });
  return (
    <div className="flex flex-col gap-4">
      <p className="text-ink-soft">
        Sends every delivery of that time span again, whether it was delivered or failed. Each keeps its{" "}
        <code>webhook-id</code>, so receivers can recognise it.
      </p>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field
          label="From"
          type="datetime-local"
          required
          value={from}
          onChange={({ target }) => setFrom(target.value)}
        />
        <Field
          label="To"
          type="datetime-local"
          required
          error={span ? undefined : "The end must be after the beginning."}
          value={to}
          onChange={({ target }) => setTo(target.value)}
        />
      </div>
      <p role="status" className="min-h-6 font-medium">
        {counted.error ? (
          <span className="text-bad">{messageOf(counted.error)}</span>
        ) : (
          span && counted.data !== undefined && howMany(counted.data)
        )}
      </p>
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button
          look="primary"
          disabled={!counted.data}
          isBusy={isPending}
          onClick={() => span && mutate(span)}
        >
          {counted.data ? `Send ${count(counted.data)} again` : "Send again"}
        </Button>
      </div>
    </div>
  );
}

function howMany(found: number): string {
  if (found === 0) return "There are no deliveries to resend in that time.";
  return found === 1 ? "1 delivery will be sent again." : `${count(found)} deliveries will be sent again.`;
}

/** As the field writes it: in the viewer's zone, to the minute. */
function localTime(at: number): string {
  return new Date(at - new Date(at).getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 16);
}

function readSpan(from: string, to: string): Span | null {
  const [start, end] = [Date.parse(from), Date.parse(to)];
  return start < end ? { from: new Date(start).toISOString(), to: new Date(end).toISOString() } : null;
}
