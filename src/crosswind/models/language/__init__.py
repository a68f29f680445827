"""Models that are asked in words: prompts and answers, endpoints for chats, vision-language models,
CLIP."""
