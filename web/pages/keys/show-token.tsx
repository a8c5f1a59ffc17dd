import type { KeyWithToken } from "../../api/keys.ts";
import { Button } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";

/** The token, this once: nothing that is stored could show it again. */
export function ShowToken({
  made,
  onClose,
}: {
  readonly made: KeyWithToken | null;
  readonly onClose: () => void;
}) {
  return (
    <Dialog title={`The token of ${made?.name ?? ""}`} isOpen={made !== null} onClose={onClose} width="40rem">
      <p className="mb-3 rounded-md bg-warn-soft px-3 py-2 text-warn">
        It is shown only once. Copy it now, and keep it as a secret.
      </p>
      <CodeBlock text={made?.token ?? ""} label="Token" />
      <div className="mt-5 flex justify-end">
        <Button look="primary" onClick={onClose}>
          I have copied it
        </Button>
      </div>
    </Dialog>
  );
}
