import { useEffect, useRef } from "react";
import type { ReactNode } from "react";
import { Button } from "./button.tsx";

/** A question or form above the page; Escape and the ground beside it close it. */
export function Dialog({
  title,
  isOpen,
  onClose,
  children,
  width = "32rem",
}: {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly width?: string;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    if (!dialog) return;
    if (isOpen && !dialog.open) dialog.showModal();
    if (!isOpen && dialog.open) dialog.close();
  }, [isOpen]);
  return (
    <dialog
      ref={ref}
      aria-label={title}
      // Told a moment later: by then it may be open again.
      onClose={({ currentTarget }) => !currentTarget.open && onClose()}
      onClick={(event) => event.target === ref.current && onClose()}
      className="m-auto w-[calc(100vw-2rem)] rounded-xl border border-line bg-raised p-0 text-ink shadow-xl backdrop:bg-black/45"
      style={{ maxWidth: width }}
    >
      {isOpen && (
        <div className="p-5">
          <h2 className="mb-3 text-[1.15rem] font-semibold">{title}</h2>
          {children}
        </div>
      )}
    </dialog>
  );
}

/** Asks before something that cannot be undone; what destroys most has its name typed first. */
export function Confirm({
  title,
  isOpen,
  onClose,
  onConfirm,
  action,
  isBusy,
  children,
}: {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onConfirm: () => void;
  readonly action: string;
  readonly isBusy?: boolean;
  readonly children: ReactNode;
}) {
  return (
    <Dialog title={title} isOpen={isOpen} onClose={onClose}>
      <div className="text-ink-soft">{children}</div>
      <div className="mt-5 flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" onClick={onConfirm} isBusy={isBusy ?? false}>
          {action}
        </Button>
      </div>
    </Dialog>
  );
}
