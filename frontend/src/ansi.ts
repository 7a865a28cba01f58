/**
 * Log text is untrusted: it becomes text nodes and spans with a class, never HTML. Only colour and weight survive of the
 * terminal's escape sequences; all other sequences vanish.
 */

export interface Piece {
  text: string;
  className: string;
}

export interface Pen {
  colour: string;
  bold: boolean;
}

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what this looks for
const SEQUENCE = /\u001b(?:\[([0-9;?]*)([A-Za-z])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

export const freshPen = (): Pen => ({ colour: "", bold: false });

function dip(pen: Pen, codes: string): void {
  for (const code of codes.split(";").map(Number)) {
    if (code === 0) Object.assign(pen, freshPen());
    else if (code === 1) pen.bold = true;
    else if (code === 22) pen.bold = false;
    else if (code === 39) pen.colour = "";
    else if (code >= 30 && code <= 37) pen.colour = COLOURS[code - 30]!;
    else if (code >= 90 && code <= 97) pen.colour = COLOURS[code - 90]!;
  }
}

const classOf = (pen: Pen): string =>
  [pen.colour && `ansi-${pen.colour}`, pen.bold && "ansi-bold"].filter(Boolean).join(" ");

/** Splits a line into pieces; the pen is carried from line to line by the caller. */
export function pieces(line: string, pen: Pen): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  const keep = (text: string): void => {
    if (text) found.push({ text, className: classOf(pen) });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    keep(line.slice(from, match.index));
    if (match[2] === "m") dip(pen, match[1] ?? "");
    from = match.index + match[0].length;
  }
  keep(line.slice(from));
  return found;
}
