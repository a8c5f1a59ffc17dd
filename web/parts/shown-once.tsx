import type { ReactNode } from "react";
import { Button } from "./button.tsx";
import { CodeBlock } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";

/** Something that nothing can show again: to be copied now. */
export function ShownOnce({
  title,
  text,
  label,
  onClose,
  children,
}: {
  readonly title: string;
  /** Null when there is nothing to show. */
  readonly text: string | null;
  readonly label: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}) {
  return (
    <Dialog title={title} isOpen={text !== null} onClose={onClose} width="40rem">
      <p className="mb-3 rounded-md bg-warn-soft px-3 py-2 text-warn">{children}</p>
      <CodeBlock text={text ?? ""} label={label} />
      <div className="mt-5 flex justify-end">
        <Button look="primary" onClick={onClose}>
          I have copied it
        </Button>
      </div>
    </Dialog>
  );
}
