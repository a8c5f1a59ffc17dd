import { useState } from "react";
import type { ShownMessage } from "../../../../api/message-log.ts";
import type { SocketCall } from "../../../../api/server-call.ts";
import { Badge } from "../../../../parts/badge.tsx";
import { Button } from "../../../../parts/button.tsx";
import { Card } from "../../../../parts/card.tsx";
import { classes } from "../../../../parts/classes.ts";
import { Field } from "../../../../parts/field.tsx";
import { Form } from "../../../../parts/form.tsx";
import { count } from "../../../../parts/format.ts";
import { LogBox } from "../../../../parts/messages.tsx";
import { PathField } from "./request-form.tsx";
import type { SocketState } from "./use-socket.ts";

/** What can be filled in of a WebSocket. */
export type SocketDraft = Pick<SocketCall, "path" | "protocols">;

const CLOCK = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
});

/** Where a WebSocket is opened, spoken to and closed. */
export function SocketForm({
  socket: { state, send, close },
  draft,
  onChange,
  onConnect,
}: {
  readonly socket: SocketState;
  readonly draft: SocketDraft;
  readonly onChange: (draft: SocketDraft) => void;
  readonly onConnect: () => void;
}) {
  const [text, setText] = useState("");
  const say = (): void => {
    send(text);
    setText("");
  };
  return (
    <div className="flex flex-col gap-6">
      <Form onSubmit={() => (state === "closed" ? onConnect() : undefined)} noValidate>
        <PathField
          path={draft.path}
          disabled={state !== "closed"}
          onChange={(path) => onChange({ ...draft, path })}
        />
        <Field
          label="Subprotocols"
          hint="Those the server may choose from, with commas in between. Leave it empty if it asks for none."
          disabled={state !== "closed"}
          spellCheck={false}
          autoComplete="off"
          className="font-mono text-[0.9rem]"
          value={draft.protocols}
          onChange={({ target }) => onChange({ ...draft, protocols: target.value })}
        />
        <div className="flex gap-2">
          {state === "closed" ? (
            <Button type="submit" look="primary">
              Connect
            </Button>
          ) : (
            <Button onClick={close}>Disconnect</Button>
          )}
        </div>
      </Form>
      {state === "open" && (
        <Form onSubmit={say} noValidate>
          <Field
            label="Message"
            hint="Enter sends it as text."
            autoFocus
            spellCheck={false}
            autoComplete="off"
            className="font-mono text-[0.9rem]"
            value={text}
            onChange={({ target }) => setText(target.value)}
          />
          <div>
            <Button type="submit">Send message</Button>
          </div>
        </Form>
      )}
    </div>
  );
}

const STATES = { closed: "not connected", opening: "connecting", open: "connected" } as const;
const TONES = { closed: "neutral", opening: "busy", open: "good" } as const;

/** What went over a WebSocket, both ways, with its times. */
export function SocketMessages({ socket: { state, messages, clear } }: { readonly socket: SocketState }) {
  const { shown, count: total } = messages;
  const first = shown[0];
  return (
    <Card
      title="Messages"
      actions={
        <>
          {first && (
            <Button size="small" look="quiet" onClick={clear}>
              Clear
            </Button>
          )}
          <span role="status">
            <Badge tone={TONES[state]}>{STATES[state]}</Badge>
          </span>
        </>
      }
    >
      {first && first.number > 1 && (
        <p className="mb-2 text-[0.9rem] text-ink-faint">
          The last {count(shown.length)} of {count(total)} messages.
        </p>
      )}
      {first ? (
        <LogBox label="Messages" live="polite">
          <ol>
            {shown.map((message) => (
              <Line key={message.number} message={message} />
            ))}
          </ol>
        </LogBox>
      ) : (
        <p className="py-2 text-ink-soft">Connect to see what goes over the WebSocket in both directions.</p>
      )}
    </Card>
  );
}

function Line({ message: { event, data, isCut, isSent, atMs } }: { readonly message: ShownMessage }) {
  const [mark, side] = event !== null ? ["·", "connection"] : isSent ? ["↑", "sent"] : ["↓", "received"];
  return (
    <li className={classes("flex flex-wrap gap-x-3 py-px sm:flex-nowrap", event !== null && "text-ink-soft")}>
      <time dateTime={new Date(atMs).toISOString()} className="tabular shrink-0 text-ink-faint">
        {CLOCK.format(atMs)}
      </time>
      <span className={classes("shrink-0 select-none", isSent ? "text-accent" : "text-ink-faint")}>
        <span aria-hidden="true">{mark}</span>
        <span className="sr-only">{side}</span>
      </span>
      <span className="min-w-0 flex-1 basis-full whitespace-pre-wrap wrap-anywhere sm:basis-0">
        {event !== null && <b>{event} </b>}
        {data}
        {isCut && "…"}
      </span>
    </li>
  );
}
