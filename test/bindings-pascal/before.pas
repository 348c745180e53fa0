{ Blocks from before heddlemm: read, resized and freed afterwards, in this thread and in another. SPDX-License-Identifier: MIT }
program before;

{$mode objfpc}{$H+}

uses
  early, heddlemm, cthreads, SysUtils;

procedure Check(Right: Boolean; const What: string);
begin
  if Right then Exit;
  WriteLn(StdErr, 'before: ', What, ', ', EarlyUsed, ' bytes of the first manager are used');
  Halt(1);
end;

function InThread(Nothing: Pointer): PtrInt;
begin
  EarlyOther := '';
  EarlyObject.Free;
  Result := 0;
end;

var
  I: Integer;
  Start: PtrUInt;
  Thread: TThreadID;
begin
  Start := EarlyUsed;
  Check(Start > 120000, 'the blocks are not the first manager''s');
  Check(MemSize(EarlyBlock) >= 100000, 'MemSize');
  EarlyText := EarlyText + 'end';
  Check((Length(EarlyText) = 103) and (Copy(EarlyText, 1, 3) = 'ABC') and (Copy(EarlyText, 101, 3) = 'end'), 'the text: ' + EarlyText);
  SetLength(EarlyNumbers, 9000);
  for I := 0 to 4999 do Check(EarlyNumbers[I] = I, 'a number was lost');
  Thread := BeginThread(@InThread);
  WaitForThreadTerminate(Thread, 0);
  CloseThread(Thread);
  EarlyText := '';
  Check(EarlyUsed > 100000, 'too much was freed');
  ReallocMem(EarlyBlock, 200000);
  for I := 0 to 99999 do Check(PByte(EarlyBlock)[I] = 0, 'the block lost its content');
  FreeMem(EarlyBlock);
  SetLength(EarlyNumbers, 0);
  Check(EarlyUsed <= Start - 120000, 'blocks of the first manager were not given back to it');
  try
    FreeMem(EarlyBlock);
    Check(False, 'a double free was accepted');
  except
    on E: EInvalidPointer do;
  end;
end.
