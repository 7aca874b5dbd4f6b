"""A scripted model: it looks for the parcel that a question names, and then says where it is."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types


class Scripted(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        questions = [part.text for content in llm_request.contents if content.role == "user" for part in content.parts or [] if part.text]
        found = parts[-1].function_response
        number = re.search(r"\d+", questions[-1])
        if number and found is None:
            answer = types.Part.from_function_call(name="find_parcel", args={"number": int(number[0])})
        else:
            place = (found.response or {}).get("result", "") if found else "Which parcel?"
            answer = types.Part(text=f"{place} Questions in this session: {len(questions)}.")
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=0, candidates_token_count=0, total_token_count=0)
        yield LlmResponse(content=types.Content(role="model", parts=[answer]), usage_metadata=usage)
