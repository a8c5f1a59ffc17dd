import { messageOf } from "../api/answer.ts";
import { Button } from "./button.tsx";

/** What every form in a dialog ends with: why it was refused, the way back, and the deed. */
export function FormEnd({
  error,
  action,
  isBusy,
  onCancel,
}: {
  readonly error?: unknown;
  readonly action: string;
  readonly isBusy: boolean;
  readonly onCancel: () => void;
}) {
  return (
    <>
      {Boolean(error) && (
        <p role="alert" className="break-words text-bad">
          {messageOf(error)}
        </p>
      )}
      <div className="flex justify-end gap-2">
        <Button onClick={onCancel}>Cancel</Button>
        <Button type="submit" look="primary" isBusy={isBusy}>
          {action}
        </Button>
      </div>
    </>
  );
}
