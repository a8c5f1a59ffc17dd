import { Button } from "./button.tsx";

/** The end of a list that goes on. */
export function LoadOlder({
  hasMore,
  isBusy,
  onLoad,
}: {
  readonly hasMore: boolean;
  readonly isBusy: boolean;
  readonly onLoad: () => void;
}) {
  if (!hasMore) return null;
  return (
    <div className="flex justify-center border-t border-line p-3">
      <Button size="small" isBusy={isBusy} onClick={onLoad}>
        Load older
      </Button>
    </div>
  );
}
