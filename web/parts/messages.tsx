import { useLayoutEffect, useRef } from "react";
import type { ReactNode } from "react";
import type { Messages, ShownMessage } from "../api/message-log.ts";
import type { TranscriptView } from "../api/run-search.ts";
import { classes } from "./classes.ts";
import { count } from "./format.ts";
import { Picker } from "./picker.tsx";

/** Who has scrolled back further than this reads, and is not pulled along. */
const END_PIXELS = 40;
const VIEWS = ["messages", "text"] as const;
const VIEW_TITLES = { messages: "Messages", text: "Text" };

/** A stream as it arrives: message by message, or as the text that they make together. */
export function MessageView({
  messages: { shown, count: total },
  view,
  empty,
  label,
}: {
  readonly messages: Messages;
  readonly view: TranscriptView;
  readonly empty: ReactNode;
  readonly label: string;
}) {
  const first = shown[0];
  if (!first) return <p className="py-2 text-ink-soft">{empty}</p>;
  return (
    <>
      {first.number > 1 && (
        <p className="mb-2 text-[0.9rem] text-ink-faint">
          The last {count(shown.length)} of {count(total)} messages.
        </p>
      )}
      <LogBox label={label} live="off">
        {view === "text" ? (
          <pre className="whitespace-pre-wrap break-words">{shown.map(({ data }) => data).join("")}</pre>
        ) : (
          <ol>
            {shown.map((message) => (
              <MessageLine key={message.number} message={message} />
            ))}
          </ol>
        )}
      </LogBox>
    </>
  );
}

/** A box whose content grows; whoever is at its end stays there. */
export function LogBox({
  label,
  live,
  children,
}: {
  readonly label: string;
  /** Whether what comes is read out. */
  readonly live: "off" | "polite";
  readonly children: ReactNode;
}) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    const element = box.current;
    if (element && isAtEnd.current) element.scrollTop = element.scrollHeight;
  });
  const watch = (): void => {
    const element = box.current;
    if (!element) return;
    isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < END_PIXELS;
  };
  return (
    <div
      ref={box}
      tabIndex={0}
      role="log"
      aria-label={label}
      aria-live={live}
      onScroll={watch}
      className="max-h-104 overflow-auto rounded-md border border-line bg-sunken p-3 font-mono text-[0.88rem]"
    >
      {children}
    </div>
  );
}

function MessageLine({ message: { number, event, data, isCut } }: { readonly message: ShownMessage }) {
  return (
    <li className={classes("flex gap-3 py-px", event === "error" && "text-bad")}>
      <span className="tabular w-8 shrink-0 text-right text-ink-faint select-none">{number}</span>
      <span className="min-w-0 flex-1 whitespace-pre-wrap break-words">
        {event !== null && <b>{event}: </b>}
        {data}
        {isCut && "…"}
      </span>
    </li>
  );
}

/** Which of the two; the choice is in the address. */
export function ViewPicker({
  view,
  onChange,
}: {
  readonly view: TranscriptView;
  readonly onChange: (view: TranscriptView) => void;
}) {
  return <Picker label="Shown as" names={VIEWS} titles={VIEW_TITLES} picked={view} onPick={onChange} />;
}
