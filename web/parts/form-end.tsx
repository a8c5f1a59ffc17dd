import { Button } from "./button.tsx";
import { Refusal } from "./refusal.tsx";

/** What every form in a dialog ends with: why it was refused, the way back, and the deed. */
export function FormEnd({
  error,
  action,
  isBusy,
  onCancel,
}: {
  readonly error?: unknown;
  readonly action: string;
  readonly isBusy?: boolean;
  readonly onCancel: () => void;
}) {
  return (
    <>
      <Refusal error={error} />
      <div className="flex justify-end gap-2">
        <Button onClick={onCancel}>Cancel</Button>
        <Button type="submit" look="primary" isBusy={isBusy ?? false}>
          {action}
        </Button>
      </div>
    </>
  );
}
