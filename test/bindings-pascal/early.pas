{ A unit that comes before heddlemm and allocates: its blocks are the first manager's. SPDX-License-Identifier: MIT }
unit early;

{$mode objfpc}{$H+}

interface

var
  EarlyText, EarlyOther: string;
  EarlyNumbers: array of Integer;
  EarlyObject: TObject;
  EarlyBlock: Pointer;

{ What the first manager still counts as used. }
function EarlyUsed: PtrUInt;

implementation

var
  First: TMemoryManager;

function EarlyUsed: PtrUInt;
begin
  Result := First.GetFPCHeapStatus().CurrHeapUsed;
end;

var
  I: Integer;

initialization
  GetMemoryManager(First);
  for I := 1 to 100 do EarlyText := EarlyText + Chr(64 + I mod 32);
  EarlyOther := EarlyText + EarlyText;
  SetLength(EarlyNumbers, 5000);
  for I := 0 to 4999 do EarlyNumbers[I] := I;
  EarlyObject := TObject.Create;
  EarlyBlock := AllocMem(100000);
end.
