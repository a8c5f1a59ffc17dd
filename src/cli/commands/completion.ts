import type { Command } from "commander";
import { usage } from "../failure.ts";
import { examples } from "../options.ts";
import { completionScript, isShell, SHELLS } from "../completion-script.ts";

/** `millrace completion bash|zsh|fish` */
export function defineCompletion(command: Command): void {
  command.argument("<shell>", SHELLS.join(", "));
  examples(
    command,
    "millrace completion bash > ~/.local/share/bash-completion/completions/millrace",
    "millrace completion zsh > ~/.zfunc/_millrace",
    "millrace completion fish > ~/.config/fish/completions/millrace.fish",
  ).action((shell: string) => {
    if (!isShell(shell))
      throw usage(`there is no completion for ${JSON.stringify(shell)}`, SHELLS.join(", "));
    process.stdout.write(completionScript(shell, command.parent ?? command));
  });
}
