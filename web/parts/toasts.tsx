import { useSyncExternalStore } from "react";
import { messageOf } from "../api/answer.ts";
import { Button } from "./button.tsx";
import { classes } from "./classes.ts";

type Toast = {
  readonly id: number;
  readonly text: string;
  readonly isBad: boolean;
  readonly undo?: () => void;
};

const SHOWN_MS = 6_000;

let toasts: readonly Toast[] = [];
let lastId = 0;
const listeners = new Set<() => void>();

function change(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

function show(toast: Omit<Toast, "id">): void {
  const id = ++lastId;
  change([...toasts.slice(-3), { ...toast, id }]);
  setTimeout(() => hide(id), SHOWN_MS);
}

function hide(id: number): void {
  change(toasts.filter((other) => other.id !== id));
}

/** Says in a corner that something was done; `undo` takes it back while it is shown. */
export function tell(text: string, undo?: () => void): void {
  show({ text, isBad: false, ...(undo && { undo }) });
}

/** Says in a corner that something went wrong. */
export function tellError(error: unknown): void {
  show({ text: messageOf(error), isBad: true });
}

/** The corner where they are shown. */
export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div
      aria-live="polite"
      className="fixed right-4 bottom-4 z-50 flex w-80 max-w-[calc(100vw-2rem)] flex-col gap-2"
    >
      {shown.map(({ id, text, isBad, undo }) => (
        <div
          key={id}
          role={isBad ? "alert" : "status"}
          className={classes(
            "flex items-center gap-3 rounded-lg border px-4 py-2.5 shadow-lg",
            isBad ? "border-bad bg-bad-soft text-bad" : "border-line bg-raised",
          )}
        >
          <span className="min-w-0 flex-1 break-words">{text}</span>
          {undo && (
            <Button
              size="small"
              onClick={() => {
                hide(id);
                undo();
              }}
            >
              Undo
            </Button>
          )}
        </div>
      ))}
    </div>
  );
}
