export function complaints(more?: Readonly<Record<string, string>>): string[];
