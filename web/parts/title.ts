import { useEffect } from "react";
import { visibleText } from "../../src/model/visible-text.ts";

/** Sets the title of the browser's tab. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${visibleText(title)} · Millrace`;
  }, [title]);
}
