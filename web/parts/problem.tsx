import { messageOf } from "../api/answer.ts";
import { Button } from "./button.tsx";

/** Says why something could not be shown, and offers to try again. */
export function Problem({ error, onRetry }: { readonly error: unknown; readonly onRetry?: () => void }) {
  return (
    <div
      role="alert"
      className="m-4 flex flex-wrap items-center gap-3 rounded-md bg-bad-soft px-4 py-3 text-bad"
    >
      <span className="min-w-0 flex-1 break-words whitespace-pre-wrap">{messageOf(error)}</span>
      {onRetry && (
        <Button size="small" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
